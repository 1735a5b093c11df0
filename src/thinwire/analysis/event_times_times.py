"""When events happened, in seconds: the time a dry run goes by.

A publisher lives in the time in which events come to it. A recording tells when they were made; late ones come when
they come, so the clock of a dry run never goes backwards.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thinwire.analysis.event_columns import Floats
from thinwire.codec.arrow_columns_arrow import Rows
from thinwire.codec.kernels.rule_table import is_whole
from thinwire.errors import ConfigError
from thinwire.schema import Property, Schema
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
        seconds = self.told(batch)
        if not batch.num_rows:
            return seconds
        seconds = np.maximum.accumulate(np.maximum(seconds, self._now))
        self._now = float(seconds[-1])
        return seconds

    def told(self, batch: pa.RecordBatch) -> Floats:
        """The time that each event tells; minus infinity where it tells none."""
        if self._stamp is None or self._rate:
            seconds = (self._read + np.arange(batch.num_rows)) / float(self._rate or 1)
        else:
            seconds = self._seconds(batch.select([self._stamp.name]), self._stamp)
        self._read += batch.num_rows
        return seconds

    def _seconds(self, batch: pa.RecordBatch, stamp: Property) -> Floats:
        rows = Rows(batch, self._alone)
        cells = rows.cells[0].astype(np.float64) if is_whole(stamp) else rows.cells.view(np.float64)[0].copy()
        for row in np.flatnonzero(rows.odd).tolist():
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
