"""Events as columns and back: one column a property, named by its path, as tables of events have it.

Numbers for the sources of events, and for the events of each source, out of columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.codec.arrow_columns import arrow_type
from thinwire.errors import EventRejected
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.event import flatten, nest

Floats = npt.NDArray[np.float64]


class Made(NamedTuple):
    """A batch, and the places and reasons of events that do not fit its columns."""

    batch: pa.RecordBatch
    unfit: list[tuple[int, str]]


def batch_of(events: Sequence[Mapping[str, Any]], schema: Schema) -> Made:
    """Events as a batch; those that do not fit the schema are left out, with the reason.

    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("air.heat", "number", step="0.1")])
    >>> made = batch_of([{"room": "a", "air": {"heat": 20.5}}, {"room": "a", "air": {"heat": "warm"}}], rooms)
    >>> made.batch.to_pydict(), made.unfit[0][0]
    ({'room': ['a'], 'air.heat': [20.5]}, 1)
    """
    flat, unfit = _flattened(events, schema)
    try:
        return Made(_columns([row for _, row in flat], schema), unfit)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
        return _singly(flat, unfit, schema)


def events_of(batch: pa.RecordBatch, schema: Schema) -> list[dict[str, Any]]:
    """The rows as events; what is null is left out, as in the JSON that it may have come from."""
    names = [p.name for p in schema if p.name in batch.schema.names]
    opaque = [p.name for p in schema if p.kind is Kind.OPAQUE]
    rows: list[dict[str, Any]] = batch.select(names).to_pylist()
    for row in rows:
        for name in opaque:
            if row.get(name) is not None:
                row[name] = json.loads(row[name])
    if not schema.nested:
        return rows
    return [nest({name: value for name, value in row.items() if value is not None}) for row in rows]


def fits(schema: Schema) -> bool:
    """May rows of this schema go to a publisher as they are, as columns?"""
    return not schema.nested and not any(p.kind is Kind.OPAQUE for p in schema)


def _flattened(events: Sequence[Mapping[str, Any]], schema: Schema) -> tuple[list[tuple[int, dict[str, Any]]], Any]:
    flat: list[tuple[int, dict[str, Any]]] = []
    unfit: list[tuple[int, str]] = []
    for place, event in enumerate(events):
        try:
            flat.append((place, flatten(event, schema)))
        except EventRejected as problem:
            unfit.append((place, str(problem)))
    return flat, unfit


def _columns(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pa.RecordBatch:
    arrays = [pa.array([_value(p, row.get(p.name)) for row in rows], type=arrow_type(p)) for p in schema]
    return pa.RecordBatch.from_arrays(arrays, names=[p.name for p in schema])


def _singly(flat: list[tuple[int, dict[str, Any]]], unfit: list[tuple[int, str]], schema: Schema) -> Made:
    good: list[dict[str, Any]] = []
    for place, row in flat:
        try:
            _columns([row], schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as problem:
            unfit.append((place, f"does not fit its column: {problem}"))
        else:
            good.append(row)
    return Made(_columns(good, schema), sorted(unfit))


def _value(p: Property, value: Any) -> Any:
    return json.dumps(value) if p.kind is Kind.OPAQUE and value is not None else value


Ints = npt.NDArray[np.int64]


class Sources:
    """Sources by the values of their dimensions, numbered as they come.

    >>> rooms = Sources(["room"])
    >>> codes = rooms.codes(pa.RecordBatch.from_pydict({"room": ["a", "b", "a"]}))
    >>> codes.tolist(), rooms.ordinals(codes).tolist(), rooms.ordinals(codes).tolist()
    ([0, 1, 0], [1, 1, 2], [3, 2, 4])
    """

    def __init__(self, dimensions: Sequence[str]) -> None:
        self._dimensions = list(dimensions)
        self._known: dict[tuple[Any, ...], int] = {}
        self._last: Ints = np.zeros(16, dtype=np.int64)

    def codes(self, batch: pa.RecordBatch) -> Ints:
        """The number of every row's source."""
        mixed: Ints = np.zeros(batch.num_rows, dtype=np.int64)
        columns = [pc.dictionary_encode(batch.column(name), null_encoding="encode") for name in self._dimensions]
        for column in columns:
            mixed = mixed * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
            # small again, however many dimensions follow
            mixed = np.unique(mixed, return_inverse=True)[1].astype(np.int64)
        _, first, places = np.unique(mixed, return_index=True, return_inverse=True)
        some = [column.take(pa.array(first)).to_pylist() for column in columns]
        names = list(zip(*some, strict=True)) if some else [()] * len(first)
        numbers = [self._known.setdefault(name, len(self._known)) for name in names]
        return np.array(numbers, dtype=np.int64)[places]

    def ordinals(self, codes: Ints) -> Ints:
        """How many events of its source there were by each row, that one included."""
        short = len(self._known) - len(self._last)
        if short > 0:
            self._last = np.concatenate([self._last, np.zeros(short + len(self._last), dtype=np.int64)])
        ranks, numbers, counts = ranked(codes)
        found: Ints = self._last[codes] + ranks + 1
        self._last[numbers] += counts
        return found


def ranked(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """How many of the same code stand before each; the codes there are, and how many of each.

    >>> [part.tolist() for part in ranked(np.array([7, 3, 7, 7]))]
    [[0, 0, 1, 2], [3, 7], [1, 3]]
    """
    order = np.argsort(codes, kind="stable")
    numbers, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
    ranks: Ints = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(first, counts)
    return ranks, numbers, counts
