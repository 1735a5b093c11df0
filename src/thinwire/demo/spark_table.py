"""Does a table have what a subscriber of the log is handed? Row for event, bit for bit.

>>> heard = pa.table({"_source": ["a", "a"], "_ordinal": [1, 2], "t": [20.5, None]})
>>> differing(heard, heard), differing(heard.slice(1), heard), differing(pa.concat_tables([heard, heard]), heard)
(0, 1, 2)
>>> differing(heard.set_column(2, "t", [[20.5, 0.0]]), heard)
1
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.client import Bus
from thinwire.codec.arrow_columns import arrow_schema
from thinwire.codec.interned_values import source_text
from thinwire.codec.record_batch_builder import value_at
from thinwire.demo.demo_scenario import SCHEMA
from thinwire.demo.demo_scenario_plants import TOPIC
from thinwire.schema import Event

WHO = ("_source", "_ordinal")
"""columns that tell an event from all others: publishers of the demonstration have one life each"""
PLACED = ("_offset", "_time")
"""columns that tell where the log has it, which a subscriber is not told"""

COLUMNS = pa.schema([field for field in arrow_schema(SCHEMA) if field.name not in PLACED])


async def heard_of(bus: Bus, last: Mapping[str, int], patience: float) -> pa.Table:
    """What a subscriber is handed that begins with the first event of the log.

    It is as strict as anybody, so it reads the log itself and no channel.

    last: the number of the last event of each plant; patience: seconds after which it makes do with what has come
    """
    events: list[Event] = []
    owed = {name for name, ordinal in last.items() if ordinal}
    with suppress(TimeoutError):
        async with asyncio.timeout(patience), bus.subscribe(TOPIC, start="earliest") as subscription:
            while owed:
                events.append(await anext(subscription))
                name = str(events[-1].source[0])
                if events[-1].ordinal >= last[name]:
                    owed.discard(name)
    return as_rows(events)


def as_rows(events: Sequence[Event]) -> pa.Table:
    """Events in the columns in which they land."""
    about = {
        "_source": [source_text(event.source) for event in events],
        "_ordinal": [event.ordinal for event in events],
        "_virtual": [event.virtual for event in events],
        "_bound": [dict(event.bound) for event in events],
    }
    columns = [about.get(name) or [value_at(event, name) for event in events] for name in COLUMNS.names]
    kinds = (field.type for field in COLUMNS)
    arrays = [pa.array(column, type=kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def differing(landed: pa.Table, heard: pa.Table) -> int:
    """Rows that only one of both has, that one has twice, or that are not the same to the last bit."""
    here, there = _places(landed), _places(heard)
    common = sorted(here.keys() & there.keys())
    alone: int = landed.num_rows + heard.num_rows - 2 * len(common)
    ours, theirs = (
        rows.take(pa.array([places[key] for key in common], pa.int64())).flatten()
        for rows, places in ((landed, here), (heard, there))
    )
    unequal: Any = pa.scalar(False)
    for name in theirs.column_names:
        unequal = pc.or_(unequal, _unequal(ours[name].combine_chunks(), theirs[name].combine_chunks()))
    changed: int = pc.sum(unequal).as_py() or 0
    return alone + changed


def _places(rows: pa.Table) -> dict[tuple[str, int], int]:
    """Where each event is."""
    keys = zip(*(rows[name].to_pylist() for name in WHO), strict=True)
    return {key: place for place, key in enumerate(keys)}


def _unequal(ours: pa.Array, theirs: pa.Array) -> pa.Array:
    """By row: are the values two? Nothing and nothing is the same, and so is only the same pattern of bits."""
    one_is_null = pc.xor(ours.is_null(), theirs.is_null())
    if pa.types.is_floating(theirs.type):
        ours, theirs = ours.view(pa.int64()), theirs.view(pa.int64())
    return pc.or_(one_is_null, pc.fill_null(pc.not_equal(ours, theirs), False))
