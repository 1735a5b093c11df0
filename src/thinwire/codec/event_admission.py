"""Admission: is this an event of the schema? What is turned away learns which field, which limit, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from thinwire.codec.value_conversion import MAX_TEXT, Converter, converter
from thinwire.errors import EventRejected, MissingProperty, TooLarge, UnknownProperty, WrongType
from thinwire.schema import Kind, Schema
from thinwire.schema.property_properties import MAX_ARRAY
from thinwire.wire.exact_value import MAX_EXACT

MAX_KEY = 4_096
"""bytes of a source's texts, all dimensions together"""

MAX_OBJECTS = 1 << 19
"""bytes of an event's texts, arrays and opaque values together: frames and key frames have a limit of their own"""

_ELEMENT = 9
_LARGEST = {
    Kind.STRING: MAX_TEXT,
    Kind.ENUM: MAX_TEXT,
    Kind.OPAQUE: MAX_EXACT,
    Kind.ARRAY: MAX_ARRAY * _ELEMENT,
}


class Admission:
    """The checks of one schema. None of them changes anything."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.names = frozenset(p.name for p in schema)
        self.converters: list[Converter] = [converter(p) for p in schema.wire]
        self._dimension_converters = [converter(p) for p in schema.dimensions]

    @property
    def must_weigh(self) -> bool:
        """Can an event be too large although each of its values is not?"""
        return sum(_LARGEST.get(p.kind, 0) for p in self.schema.wire) > MAX_OBJECTS

    def check_names(self, event: Mapping[str, Any]) -> None:
        """Refuse what the schema does not have, and an event without its time."""
        unknown = [name for name in event if name not in self.names]
        if unknown:
            raise UnknownProperty(property=unknown[0], schema=self.schema.name, known=sorted(self.names))
        stamp = self.schema.time
        if stamp is not None and event.get(stamp.name) is None:
            raise MissingProperty(property=stamp.name, schema=self.schema.name)

    def check_weight(self, ticks: tuple[Any, ...]) -> None:
        """Refuse an event whose values are too large together."""
        size = sum(_weight(thing) for thing in ticks)
        if size > MAX_OBJECTS:
            raise TooLarge("texts, arrays and opaque values together", size=size, limit=MAX_OBJECTS)

    def check_key(self, key: tuple[Any, ...]) -> None:
        """Refuse dimension values that cannot identify a source."""
        for p, convert, value in zip(self.schema.dimensions, self._dimension_converters, key, strict=True):
            if value is None:
                raise MissingProperty(property=p.name, schema=self.schema.name)
            convert(value)
            if not isinstance(value, str | int):  # 7.0 is a whole number, but as a key it is told as 7
                raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=value)
        size = sum(len(value.encode()) for value in key if isinstance(value, str))
        if size > MAX_KEY:
            raise TooLarge("dimension values", size=size, limit=MAX_KEY)

    def refuse(self, event: Any, problem: Exception) -> NoReturn:
        """Say what is wrong with an event that made the generated code stumble."""
        if not isinstance(event, Mapping):
            raise WrongType("an event is a mapping from names to values", given=type(event).__name__)
        for p, convert in zip(self.schema.wire, self.converters, strict=True):
            convert(event.get(p.name))
        for p in self.schema.dimensions:
            if event.get(p.name) is None:
                raise MissingProperty(property=p.name, schema=self.schema.name)
            if not isinstance(event[p.name], str | int):
                raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=event[p.name])
        raise EventRejected(str(problem)) from problem


def _weight(thing: Any) -> int:
    """Bytes of a converted value that is told whole."""
    if isinstance(thing, str):
        return len(thing.encode())
    if isinstance(thing, bytes):
        return len(thing)
    return len(thing[0]) * _ELEMENT if isinstance(thing, tuple) and isinstance(thing[0], tuple) else 0
