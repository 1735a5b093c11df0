"""What a link must deliver, in the plainest words: a table of last values, a rule per property, exact fractions.

No bits, no columns, no kernels, no frames. Fixed predictors only: what `auto` chooses is a matter of bytes.

>>> from thinwire.events import Property, Schema
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> reference = Reference(rooms, Demand(tolerance={"t": 0.5}, predictor="last"))
>>> [reference.publish({"room": "11.1", "t": t}).values["t"] for t in (20.0, 20.4, 21.2)]
[20.0, 20.0, 21.1]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from thinwire.events import Schema
from thinwire.events.paths import flatten, nest
from thinwire.reduction import Demand
from thinwire.testing.reference_rules import Memory, memory_of, outside, tolerance_of

__all__ = ["Expected", "Reference", "tolerance_of"]


class Expected(NamedTuple):
    """An event as every subscriber must see it: its values, what of it travelled, what is outside its range."""

    values: dict[str, Any]
    told: frozenset[str]
    flags: frozenset[str]


class Reference:
    """A link without the link."""

    def __init__(self, schema: Schema, demand: Demand) -> None:
        self.schema = schema
        self.demand = demand
        self._sources: dict[tuple[Any, ...], tuple[list[int], dict[str, Memory]]] = {}

    def publish(self, event: Mapping[str, Any]) -> Expected:
        """What arrives of an event."""
        flat = flatten(event, self.schema)
        source = tuple(flat[p.name] for p in self.schema.dimensions)
        fresh = ([0], {p.name: memory_of(p, self.demand) for p in self.schema.wire})
        ordinals, memories = self._sources.setdefault(source, fresh)
        ordinals[0] += 1
        told = {name: memory.take(flat.get(name), ordinals[0]) for name, memory in memories.items()}
        seen = {
            p.name: told[p.name].value if p.name in told else flat[p.name] for p in self.schema if not p.confidential
        }
        travelled = frozenset(name for name, part in told.items() if part.travelled)
        flags = frozenset(p.name for p in self.schema.wire if told[p.name].travelled and outside(p, flat.get(p.name)))
        return Expected(nest(seen), travelled, flags)
