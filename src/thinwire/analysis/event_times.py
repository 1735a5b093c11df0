"""When events of any shape say that they happened.

When events happened, in seconds: the time a dry run goes by.

A publisher lives in the time in which events come to it. A recording tells when they were made; late ones come when
they come, so the clock of a dry run never goes backwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thinwire.analysis.event_columns import Floats, batch_of
from thinwire.codec.arrow_rows import ArrowRows
from thinwire.codec.kernels.rule_table import is_integral
from thinwire.errors import ConfigError
from thinwire.schema import Property, Schema, infer
from thinwire.schema.event import nest
from thinwire.schema.timestamps import ticks_per_second, to_ticks

_UNITS = (1, 10**3, 10**6, 10**9)
_YEAR_2100 = 4_102_444_800


class EventClock:
    """Reads batches of a schema's events one after the other.

    rate: events a second, for events that do not tell their time; before: events of the stream before the first batch

    >>> stamp = Property("time", "timestamp", "header", form="iso:T0Z")
    >>> clock = EventClock(Schema("rooms", [stamp]))
    >>> clock.read(pa.RecordBatch.from_pydict({"time": ["1970-01-01T00:01:00Z", "1970-01-01T00:00:59Z"]})).tolist()
    [60.0, 60.0]
    """

    def __init__(self, schema: Schema, rate: float | None = None, before: int = 0) -> None:
        if schema.time is None and not rate:
            raise ConfigError(
                "the events tell no time: name the property that does (--time), or events a second (--rate)",
                schema=schema.name,
            )
        self._stamp = schema.time
        self._rate = rate
        self._alone = schema.select([self._stamp.name]) if self._stamp is not None else schema
        self._unit = 0.0
        self._now = -np.inf
        self._read = before

    def read(self, batch: pa.RecordBatch) -> Floats:
        """The time of each event, never before that of one read earlier."""
        seconds = self.event_times(batch)
        if not batch.num_rows:
            return seconds
        seconds = np.maximum.accumulate(np.maximum(seconds, self._now))
        self._now = float(seconds[-1])
        return seconds

    def event_times(self, batch: pa.RecordBatch) -> Floats:
        """The time that each event tells; minus infinity where it tells none."""
        if self._stamp is None or self._rate:
            seconds = (self._read + np.arange(batch.num_rows)) / float(self._rate or 1)
        else:
            seconds = self._seconds(batch.select([self._stamp.name]), self._stamp)
        self._read += batch.num_rows
        return seconds

    def _seconds(self, batch: pa.RecordBatch, stamp: Property) -> Floats:
        rows = ArrowRows(batch, self._alone)
        cells = rows.cells[0].astype(np.float64) if is_integral(stamp) else rows.cells.view(np.float64)[0].copy()
        for row in np.flatnonzero(rows.irregular).tolist():
            cells[row] = self._ticks(batch.column(0)[row].as_py(), stamp)
        return np.asarray(cells / self._per_second(stamp, cells), dtype=np.float64)

    def _ticks(self, value: object, stamp: Property) -> float:
        """One that columns cannot read; nothing where it cannot be read at all: such an event comes when it comes."""
        if stamp.form in (None, "epoch"):
            return float(value) if isinstance(value, int | float) else -np.inf
        ticks = to_ticks(value, stamp.form or "")
        return -np.inf if ticks is None else float(ticks)

    def _per_second(self, stamp: Property, cells: Floats) -> float:
        """Ticks that make a second; a count since 1970 says by its size what it counts."""
        if not self._unit:
            known = ticks_per_second(stamp.form)
            largest = float(np.max(cells, initial=0.0))
            fitting = (unit for unit in _UNITS if largest / unit < _YEAR_2100)
            self._unit = float(known or next(fitting, _UNITS[-1]))
        return self._unit


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
        told = iter(self._clock.event_times(made.batch).tolist())
        seconds = (None if place in unfit else next(told) for place in range(len(events)))
        return [one if one is not None and math.isfinite(one) else None for one in seconds]

    def _at(self, event: Mapping[str, Any]) -> Any:
        value: Any = event
        for name in self.name.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value
