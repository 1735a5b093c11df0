"""Suppressed events of a source table that heartbeats report, as runs of neighbouring sources."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from thinwire.codec.source_table import LAST_SENT, ORDINAL, SourceTable
from thinwire.wire import SuppressedRun
from thinwire.wire.control_frames import MAX_SUPPRESSED

MAX_RUNS = 16_384
"""maximum number of runs in a heartbeat"""


def take_suppressed_runs(table: SourceTable) -> list[SuppressedRun]:
    """Return the unsent suppressed events of all sources as runs of equal counts, and mark them as sent."""
    if not table.rows:
        return []
    cells = table.by_row()
    skips = cells[:, ORDINAL] - cells[:, LAST_SENT]
    edges = [0, *(np.flatnonzero(np.diff(skips)) + 1).tolist(), len(skips)]
    cells[:, LAST_SENT] = cells[:, ORDINAL]
    runs = (SuppressedRun(a, b - a, int(skips[a])) for a, b in pairwise(edges) if skips[a])
    return [piece for run in runs for piece in _pieces(run)]


def has_unsent_suppressed(table: SourceTable) -> bool:
    """Check whether any source has suppressed events that no frame has reported."""
    if not table.rows:
        return False
    cells = table.by_row()
    return bool((cells[:, ORDINAL] != cells[:, LAST_SENT]).any())


def split_runs(runs: list[SuppressedRun]) -> list[tuple[SuppressedRun, ...]]:
    """Split runs into parts that fit a heartbeat; one empty part if there are none."""
    parts: list[list[SuppressedRun]] = [[]]
    events_in_part = 0
    for run in runs:
        events = run.sources * run.skip
        if events_in_part + events > MAX_SUPPRESSED or len(parts[-1]) == MAX_RUNS:
            parts.append([])
            events_in_part = 0
        parts[-1].append(run)
        events_in_part += events
    return [tuple(part) for part in parts]


def _pieces(run: SuppressedRun) -> Iterator[SuppressedRun]:
    """Split a run so that each piece fits a heartbeat."""
    most = max(1, MAX_SUPPRESSED // run.skip)
    for first in range(run.first, run.first + run.sources, most):
        yield SuppressedRun(first, min(most, run.first + run.sources - first), run.skip)
