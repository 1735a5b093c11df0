"""How far a subscriber's values are from the truth: every event that was published against the one it became.

Both sides are columns. An event is known by its source and its number there, so one that comes long after it was
published (silence is told at its end) finds its row again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.analysis.column_errors_distances import distances
from thinwire.analysis.event_columns_sources import Ints, Sources
from thinwire.ledger.row_deviation import Deviation
from thinwire.schema import Schema

Bools = npt.NDArray[np.bool_]

_ORDINALS = 1 << 36
"""a key is the number of a source times this, and the number of the event there"""


class Comparison:
    """Keeps what was published until a subscriber has it, then compares.

    errors: by property; lost: events that came twice, or that nobody published
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.errors = {p.name: Deviation() for p in schema.wire}
        self.lost = 0
        self._sources = Sources([p.name for p in schema.dimensions])
        self._names = [p.name for p in schema.wire]
        self._fresh: list[_Rows] = []
        self._waiting: _Rows | None = None

    def published(self, batch: pa.RecordBatch, refused: Sequence[int], counted: bool) -> None:
        """These rows were published, but for the refused ones; those not counted are only awaited."""
        if refused:
            batch = batch.take(pa.array(np.delete(np.arange(batch.num_rows), refused)))
        if batch.num_rows:
            codes = self._sources.codes(batch)
            keys = _ORDINALS * codes + self._sources.ordinals(codes)
            values = pa.Table.from_batches([batch.select(self._names)])
            self._fresh.append(_Rows(keys, np.full(len(keys), counted), values))

    def delivered(self, batch: pa.RecordBatch, bound: Mapping[str, float | None]) -> None:
        """A subscriber got these, as the rows of a table."""
        if self._fresh:
            self._waiting = _joined([*([self._waiting] if self._waiting else []), *self._fresh])
            self._fresh = []
        keys = _ORDINALS * self._sources.codes(batch) + batch.column("_ordinal").to_numpy()
        places, found = self._waiting.find(keys) if self._waiting else (keys, np.zeros(len(keys), dtype=np.bool_))
        self.lost += len(keys) - int(found.sum())
        if self._waiting is not None and found.any():
            self._compare(self._waiting, batch, np.flatnonzero(found), places[found], bound)
            self._waiting = self._waiting.without(places[found])

    @property
    def missing(self) -> int:
        """Events that were published and that nobody has."""
        return sum(len(rows.keys) for rows in (*self._fresh, *([self._waiting] if self._waiting else [])))

    def _compare(
        self, waiting: _Rows, batch: pa.RecordBatch, rows: Ints, places: Ints, bound: Mapping[str, float | None]
    ) -> None:
        counted = waiting.counted[places]
        true = waiting.values.take(pa.array(places[counted]))
        told = batch.select(self._names).take(pa.array(rows[counted]))
        for p in self.schema.wire:
            off = distances(p, told.column(p.name), true.column(p.name).combine_chunks())
            self.errors[p.name].add_many(off, bound.get(p.name) or 0.0)


class _Rows:
    """Rows by their keys: which of them count, and their values."""

    def __init__(self, keys: Ints, counted: Bools, values: pa.Table) -> None:
        self.keys = keys
        self.counted = counted
        self.values = values

    def find(self, keys: Ints) -> tuple[Ints, Bools]:
        """For each key its place among these, which are in order, and whether it is there (once)."""
        places = np.minimum(np.searchsorted(self.keys, keys), max(0, len(self.keys) - 1))
        first = np.zeros(len(keys), dtype=np.bool_)
        first[np.unique(keys, return_index=True)[1]] = True
        return places, first & (self.keys[places] == keys) if len(self.keys) else first & False

    def without(self, places: Ints) -> _Rows:
        """All others."""
        left = np.delete(np.arange(len(self.keys)), places)
        return _Rows(self.keys[left], self.counted[left], self.values.take(pa.array(left)))


def _joined(parts: Sequence[_Rows]) -> _Rows:
    """All of them, in the order of their keys."""
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    counted = np.concatenate([part.counted for part in parts])
    values = pa.concat_tables([part.values for part in parts]).combine_chunks()
    return _Rows(keys[order], counted[order], values.take(pa.array(order)))
