"""When events of any shape say that they happened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from thinwire.analysis.event_columns import batch_of
from thinwire.analysis.event_times_times import EventClock
from thinwire.errors import ConfigError
from thinwire.schema import Schema, infer
from thinwire.schema.event_paths import nest

HEAD = 1_000
"""events that show which property tells the time"""


class Stamper:
    """Reads the time property of events.

    >>> stamper = Stamper.found([{"time": 60, "t": 1.5}, {"time": 61, "t": 1.5}], "rooms", time="time")
    >>> stamper.seconds([{"time": 60}, {"time": "soon"}, {}])
    [60.0, None, None]
    """

    def __init__(self, alone: Schema) -> None:
        (self._stamp,) = alone.properties
        self.alone = alone
        self._clock = EventClock(alone)

    @classmethod
    def found(
        cls,
        head: Sequence[Mapping[str, Any]],
        topic: str,
        *,
        time: str | None = None,
        dimensions: Sequence[str] | None = None,
    ) -> Stamper:
        """One for the property that the first events show, or for the one named."""
        if not head:
            raise ConfigError("an analysis needs events: there are none that can be read", topic=topic)
        return cls.of(infer(head, topic, dimensions=dimensions, time=time))

    @classmethod
    def of(cls, schema: Schema) -> Stamper:
        """One for the time of a schema."""
        if schema.time is None:
            EventClock(schema)  # which says what to do
        assert schema.time is not None
        return cls(schema.select([schema.time.name]))

    @property
    def name(self) -> str:
        """The property that tells the time."""
        return self._stamp.name

    @property
    def complaint(self) -> str:
        """Why an event that tells no time is none."""
        return f"tells no time: {self.name} is missing or of another kind"

    def seconds(self, events: Sequence[Mapping[str, Any]]) -> list[float | None]:
        """The time of each; None where it cannot be told."""
        made = batch_of([nest({self.name: self._at(event)}) for event in events], self.alone)
        unfit = {place for place, _ in made.unfit}
        told = iter(self._clock.told(made.batch).tolist())
        seconds = (None if place in unfit else next(told) for place in range(len(events)))
        return [one if one is not None and math.isfinite(one) else None for one in seconds]

    def _at(self, event: Mapping[str, Any]) -> Any:
        value: Any = event
        for name in self.name.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value
