"""Events as columns and back: one column a property, named by its path, as tables of events have it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.codec.arrow_columns import arrow_type
from thinwire.errors import EventRejected
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.event_paths import flatten, nest

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
