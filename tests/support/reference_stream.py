"""What a link must deliver, in the plainest words: a table of last values, a rule per property, exact fractions.

No bits, no columns, no kernels, no frames. Fixed predictors only: what `auto` chooses is a matter of bytes.

>>> from thinwire.schema import Property, Schema
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> reference = ReferenceStream(rooms, Demand(tolerance={"t": 0.5}, predictor="last"))
>>> [reference.publish({"room": "11.1", "t": t}).values["t"] for t in (20.0, 20.4, 21.2)]
[20.0, 20.0, 21.1]
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

from reference_rules import ReceivedValue, ReferenceState, memory_of, outside, tolerance_of

from thinwire.codec import Demand
from thinwire.schema import Role, Schema
from thinwire.schema.event import flatten, nest

__all__ = ["Expected", "ReferenceStream", "tolerance_of"]


class Expected(NamedTuple):
    """An event as every subscriber must see it: its values, what of it travelled, what is outside its range, and
    whether it was passed over in silence."""

    values: dict[str, Any]
    told: frozenset[str]
    flags: frozenset[str]
    virtual: bool


@dataclass
class _Source:
    """What both ends know of a source; `due`: under changes only, its next event travels whatever it is."""

    memories: dict[str, ReferenceState]
    ordinal: int = 0
    due: bool = True


class ReferenceStream:
    """A link without the link."""

    def __init__(self, schema: Schema, demand: Demand) -> None:
        self.schema = schema
        self.demand = demand
        self._firing = [p.name for p in schema.wire if p.role is not Role.HEADER]
        self._sources: dict[tuple[Any, ...], _Source] = {}

    def publish(self, event: Mapping[str, Any]) -> Expected:
        """What arrives of an event."""
        flat = flatten(event, self.schema)
        key = tuple(flat[p.name] for p in self.schema.dimensions)
        if key not in self._sources:
            self._sources[key] = _Source({p.name: memory_of(p, self.demand) for p in self.schema.wire})
        source = self._sources[key]
        source.ordinal += 1
        waits = self.demand.changes and not source.due and not self._fires(source, flat)
        told = self._pass_over(source) if waits else self._take(source, flat)
        seen = {
            p.name: told[p.name].value if p.name in told else flat[p.name] for p in self.schema if not p.confidential
        }
        travelled = frozenset(name for name, part in told.items() if part.travelled)
        flags = frozenset(p.name for p in self.schema.wire if told[p.name].travelled and outside(p, flat.get(p.name)))
        virtual = waits or (not self.demand.changes and not travelled)
        return Expected(nest(seen), travelled, flags, virtual)

    def _fires(self, source: _Source, flat: Mapping[str, Any]) -> bool:
        """Would something that may make an event travel do so?"""
        tried = deepcopy(source.memories)
        return any(tried[name].take(flat.get(name), source.ordinal).travelled for name in self._firing)

    def _pass_over(self, source: _Source) -> dict[str, ReceivedValue]:
        return {name: memory.expect(source.ordinal) for name, memory in source.memories.items()}

    def _take(self, source: _Source, flat: Mapping[str, Any]) -> dict[str, ReceivedValue]:
        """Under changes only, a value that cannot be kept in mind makes the next event travel as well."""
        told = {name: memory.take(flat.get(name), source.ordinal) for name, memory in source.memories.items()}
        source.due = any(told[name].odd for name in self._firing)
        return told
