"""Conversion of events between the values of custom kinds and those of their base kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thinwire.errors import WrongType
from thinwire.schema.custom_kind import CustomKind, find_custom_kind
from thinwire.schema.event import flatten, nest
from thinwire.schema.schema import Schema


class KindConversion:
    """Converts the events of one schema. Absent values and properties that an event does not have stay as they are."""

    def __init__(self, schema: Schema, kinds: Mapping[str, type[CustomKind]]) -> None:
        self.schema = schema
        self.kinds = kinds

    def to_base(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an event with the values that are encoded. Raises WrongType for a value of another kind."""
        return self._convert(event, self._to_base)

    def from_base(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event with the values of the application."""
        return self._convert(event, lambda name, value: self.kinds[name].from_base(value))

    def _convert(self, event: Mapping[str, Any], convert: Callable[[str, Any], Any]) -> dict[str, Any]:
        flat = flatten(event, self.schema)
        flat |= {name: convert(name, flat[name]) for name in self.kinds if flat.get(name) is not None}
        return nest(flat) if self.schema.nested else flat

    def _to_base(self, name: str, value: Any) -> Any:
        kind = self.kinds[name]
        try:
            return kind.to_base(value)
        except (ValueError, TypeError, AttributeError) as problem:
            raise WrongType(f"a {kind.name} is expected: {problem}", property=name, value=value) from None


def kind_conversion(schema: Schema) -> KindConversion | None:
    """Return the conversion for a schema; None if it has no custom kind that this process has registered."""
    found = {p.name: find_custom_kind(p.custom_kind) for p in schema if p.custom_kind is not None}
    kinds = {name: kind for name, kind in found.items() if kind is not None}
    return KindConversion(schema, kinds) if kinds else None
