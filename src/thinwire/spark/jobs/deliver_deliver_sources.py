"""Batches in which sources follow one another: cut where a source ends, and filtered with a state that goes on.

A source's columns come first, its value last, and what lies between is passed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from thinwire.filters import IntervalIndex
from thinwire.filters.greedy_filter_tally import Tally
from thinwire.filters.thresholds import Ticks
from thinwire.filters.thresholds_steps import nearest_ticks

Piece = tuple[bool, pa.RecordBatch]
"""does a source begin here, and rows of it"""


def pieces(batches: Iterable[pa.RecordBatch], keys: int) -> Iterator[Piece]:
    """The batches, cut where the first so many columns change."""
    last: Any = None
    for batch in batches:
        if not batch.num_rows:
            continue
        begins = [0, *_changes(batch, keys).tolist()]
        for begin, end in zip(begins, [*begins[1:], batch.num_rows], strict=True):
            key = _key(batch, begin, keys)
            yield begin > 0 or key != last, batch.slice(begin, end - begin)
            last = key


def counted(
    batches: Iterable[pa.RecordBatch], thresholds: tuple[int, ...], step: float, keys: int
) -> Iterator[pa.RecordBatch]:
    """A row for each source and threshold."""
    tally, before = Tally(thresholds), None
    for begins, piece in pieces(batches, keys):
        if begins and before is not None:
            yield _counts(tally, before, step, keys)
            tally = Tally(thresholds)
        tally.take(_ticks(piece, step))
        before = piece
    if before is not None:
        yield _counts(tally, before, step, keys)


def kept(
    batches: Iterable[pa.RecordBatch], thresholds: tuple[int, ...], step: float, keys: int
) -> Iterator[pa.RecordBatch]:
    """The rows that are delivered, once for each threshold that they are delivered to."""
    index = IntervalIndex(thresholds, 0)
    every = np.array(thresholds, dtype=np.int64)
    for begins, piece in pieces(batches, keys):
        ticks = _ticks(piece, step)
        if begins:
            index = IntervalIndex(every, int(ticks[0]))
            yield _rows(piece, np.zeros(every.size, dtype=np.int64), every, step)
        for places, fired in index.offer_batches(ticks):
            yield _rows(piece, places, fired, step)


def _changes(batch: pa.RecordBatch, keys: int) -> Ticks:
    """Rows whose key is another than that of the row before."""
    changed = np.zeros(max(0, batch.num_rows - 1), dtype=np.bool_)
    for column in batch.columns[:keys]:
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        changed |= np.diff(codes) != 0
    return 1 + np.flatnonzero(changed)


def _key(batch: pa.RecordBatch, row: int, keys: int) -> tuple[Any, ...]:
    return tuple(column[row].as_py() for column in batch.columns[:keys])


def _ticks(piece: pa.RecordBatch, step: float) -> Ticks:
    return nearest_ticks(piece.column(piece.num_columns - 1).to_numpy(zero_copy_only=False), step)


def _counts(tally: Tally, piece: pa.RecordBatch, step: float, keys: int) -> pa.RecordBatch:
    first = pa.array(np.zeros(tally.thresholds.size, dtype=np.int64))
    about = [column.take(first) for column in piece.columns[:keys]]
    figures = {
        "threshold": tally.thresholds * step,
        "events": np.full(tally.thresholds.size, tally.events, dtype=np.int64),
        "delivered": tally.delivered,
        "share": tally.delivered / max(1, tally.events),
        "largest_gap": tally.gaps * step,
        "longest_silence": tally.silences,
    }
    arrays = [*about, *map(pa.array, figures.values())]
    return pa.RecordBatch.from_arrays(arrays, names=[*piece.schema.names[:keys], *figures])


def _rows(piece: pa.RecordBatch, places: Ticks, fired: Ticks, step: float) -> pa.RecordBatch:
    rows = piece.take(pa.array(places))
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(fired * step)], names=[*rows.schema.names, "threshold"])
