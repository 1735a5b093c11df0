"""Several sources in one stream: they take turns, and memory holds one block of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from thinwire.errors import ConfigError

BLOCK = 10_000
"""rows of a batch"""
MAX_SOURCES = 1_000


class Maker(Protocol):
    """Makes the events of one source."""

    def block(self, rows: int = BLOCK) -> pa.RecordBatch:
        """The next `rows` events."""


def in_turn(makers: Sequence[Maker], events: int) -> Iterator[pa.RecordBatch]:
    """So many events of all of them, one of each in turn, in batches."""
    rounds = max(1, BLOCK // len(makers))
    while events > 0:
        rows = rounds * len(makers)
        batch = _interleave([maker.block(rounds) for maker in makers])
        yield batch if rows <= events else batch.slice(0, events)
        events -= rows


def check(name: str, value: int, lowest: int, highest: int | None) -> None:
    """Refuse a number outside its limits."""
    if value < lowest or (highest is not None and value > highest):
        raise ConfigError("outside its limits", field=name, value=value, lowest=lowest, highest=highest)


def check_request(events: int, seed: int, sources: int, first: int) -> None:
    """Refuse a stream that nobody can make."""
    check("events", events, 0, None)
    check("sources", sources, 1, MAX_SOURCES)
    check("seed", seed, 0, None)
    check("first", first, 0, None)


def _interleave(blocks: list[pa.RecordBatch]) -> pa.RecordBatch:
    """First row of each, then second row of each, and so on."""
    if len(blocks) == 1:
        return blocks[0]
    order = np.arange(sum(b.num_rows for b in blocks)).reshape(len(blocks), -1).T.ravel()
    return pa.Table.from_batches(blocks).take(order).combine_chunks().to_batches()[0]
