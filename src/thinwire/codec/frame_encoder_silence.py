"""What was passed over in silence, in runs of neighbouring sources, and in parts that fit a heartbeat."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinwire.codec.source_table_columns import ORDINAL, TOLD, Columns
from thinwire.wire import Silence
from thinwire.wire.control_frames import MAX_TOLD

MAX_RUNS = 16_384
"""runs in one heartbeat, at most"""


def tell(columns: Columns) -> list[Silence]:
    """The untold events of all sources, as runs of equal counts; from now on they count as told."""
    if not columns.rows:
        return []
    table = columns.view().reshape(columns.rows, columns.width)
    skips = table[:, ORDINAL] - table[:, TOLD]
    edges = np.flatnonzero(np.diff(skips)) + 1
    starts = np.concatenate(([0], edges))
    ends = np.concatenate((edges, [len(skips)]))
    table[:, TOLD] = table[:, ORDINAL]
    runs = (Silence(int(a), int(b - a), int(skips[a])) for a, b in zip(starts, ends, strict=True) if skips[a])
    return [piece for run in runs for piece in _pieces(run)]


def untold(columns: Columns) -> bool:
    """Is there an event of any source that was passed over and not told?"""
    if not columns.rows:
        return False
    table = columns.view().reshape(columns.rows, columns.width)
    return bool((table[:, ORDINAL] != table[:, TOLD]).any())


def parts(silences: list[Silence]) -> list[tuple[Silence, ...]]:
    """Silences in parts that a heartbeat may tell; one empty part where there is nothing to tell."""
    found: list[list[Silence]] = [[]]
    told = 0
    for silence in silences:
        events = silence.sources * silence.skip
        if told + events > MAX_TOLD or len(found[-1]) == MAX_RUNS:
            found.append([])
            told = 0
        found[-1].append(silence)
        told += events
    return [tuple(part) for part in found]


def _pieces(run: Silence) -> Iterator[Silence]:
    """A run cut so that each piece fits a heartbeat of its own."""
    most = max(1, MAX_TOLD // run.skip)
    for first in range(run.first, run.first + run.sources, most):
        yield Silence(first, min(most, run.first + run.sources - first), run.skip)
