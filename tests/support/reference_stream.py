"""Reference model of a stream: a table of last values, a rule per property, exact fractions.

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
    """An event as every decoder must deliver it: its values, the sent properties, those outside their range, and
    whether it was suppressed."""

    values: dict[str, Any]
    sent: frozenset[str]
    flags: frozenset[str]
    virtual: bool


@dataclass
class _Source:
    """The state of a source at both ends; `due`: with changes only, its next event is sent in any case."""

    memories: dict[str, ReferenceState]
    ordinal: int = 0
    due: bool = True


class ReferenceStream:
    """A stream without frames."""

    def __init__(self, schema: Schema, demand: Demand) -> None:
        self.schema = schema
        self.demand = demand
        self._firing = [p.name for p in schema.wire if p.role is not Role.HEADER]
        self._sources: dict[tuple[Any, ...], _Source] = {}

    def publish(self, event: Mapping[str, Any]) -> Expected:
        """Return an event as it must be delivered."""
        flat = flatten(event, self.schema)
        key = tuple(flat[p.name] for p in self.schema.dimensions)
        if key not in self._sources:
            self._sources[key] = _Source({p.name: memory_of(p, self.demand) for p in self.schema.wire})
        source = self._sources[key]
        source.ordinal += 1
        waits = self.demand.changes and not source.due and not self._fires(source, flat)
        got = self._suppress(source) if waits else self._take(source, flat)
        seen = {p.name: got[p.name].value if p.name in got else flat[p.name] for p in self.schema if not p.confidential}
        sent = frozenset(name for name, part in got.items() if part.sent)
        flags = frozenset(p.name for p in self.schema.wire if got[p.name].sent and outside(p, flat.get(p.name)))
        virtual = waits or (not self.demand.changes and not sent)
        return Expected(nest(seen), sent, flags, virtual)

    def _fires(self, source: _Source, flat: Mapping[str, Any]) -> bool:
        """Return whether a property that may trigger a frame does so."""
        tried = deepcopy(source.memories)
        return any(tried[name].take(flat.get(name), source.ordinal).sent for name in self._firing)

    def _suppress(self, source: _Source) -> dict[str, ReceivedValue]:
        return {name: memory.expect(source.ordinal) for name, memory in source.memories.items()}

    def _take(self, source: _Source, flat: Mapping[str, Any]) -> dict[str, ReceivedValue]:
        """With changes only, a value that the state cannot represent triggers the next event too."""
        got = {name: memory.take(flat.get(name), source.ordinal) for name, memory in source.memories.items()}
        source.due = any(got[name].odd for name in self._firing)
        return got
