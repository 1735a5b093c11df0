"""Selection of predictors for `auto`.

A trial stores a block of events of a source, runs every candidate over it in closed loop, and switches to the one with
the fewest bits if it is clearly better than the current one. The change is sent in a switch frame. A source has a trial
at its start and then at growing intervals. The number of concurrent trials is bounded. A new source starts with the
predictor that was selected last.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from thinwire.codec.kernels.predictor_costs import shadow
from thinwire.codec.predictors import arithmetic
from thinwire.codec.predictors.catalogue import candidates
from thinwire.codec.source_table import COEFFICIENTS, DUE, FILLED, HEADER_CELLS, MODE, SLOT_CELLS, TRIAL, SourceTable
from thinwire.codec.ticks import UNSET
from thinwire.wire.control_frames import PredictorChange

BLOCK = 64
POOL = 1_024
MAX_INTERVAL = 4_096
MARGIN = 96
"""minimum gain of a change over a block, in bits"""


class PredictorTrials:
    """Predictor trials of one stream encoder, for rules of which at least one is `auto`."""

    def __init__(self, table: SourceTable) -> None:
        self.table = table
        self.auto = [(i, rule) for i, rule in enumerate(table.rules.rules) if rule.auto]
        self.blocks = np.zeros((POOL, BLOCK, len(self.auto)), dtype=np.int64)
        self._free = list(range(POOL - 1, -1, -1))
        self._seasons: dict[int, Any] = {}
        self._pick = itemgetter(*(i for i, _ in self.auto))
        self._candidates = np.array(candidates(), dtype=np.int64)
        self._limits = np.array([(rule.tolerance, rule.half) for _, rule in self.auto], dtype=np.int64)
        self._periods = np.array([rule.property.period or 0 for _, rule in self.auto], dtype=np.int64)
        self.pending: list[tuple[int, tuple[PredictorChange, ...]]] = []
        """row and changes that are not sent yet"""

    def add_event(self, row: int, ticks: tuple[Any, ...]) -> None:
        """Add an event of a source whose trial is due or running."""
        cells, start = self.table.cells, row * self.table.width
        trial, filled = cells[start + TRIAL], cells[start + FILLED]
        if trial:
            self.blocks[trial - 1, filled] = self._pick(ticks)
            cells[start + FILLED] = filled + 1
        self.run_trial(row)

    def run_trial(self, row: int) -> None:
        """Start a trial that is due, or finish one that is complete."""
        cells, start = self.table.cells, row * self.table.width
        if not cells[start + TRIAL]:
            self._begin(row)
        elif cells[start + FILLED] == BLOCK:
            self._finish(row)

    def _begin(self, row: int) -> None:
        cells, start = self.table.cells, row * self.table.width
        if not self._free:
            cells[start + DUE] = cells[start] + BLOCK
            return
        trial = self._free.pop()
        cells[start + TRIAL], cells[start + FILLED], cells[start + DUE] = trial + 1, 0, cells[start] + 1
        if self.table.ring_width:
            season = cells[start + HEADER_CELLS + SLOT_CELLS * self.table.slots : start + self.table.width]
            self._seasons[trial] = (cells[start], season)

    def _finish(self, row: int) -> None:
        cells, start = self.table.cells, row * self.table.width
        trial = cells[start + TRIAL] - 1
        starts = [self.table.slot_start(row, rule.first_slot) for _, rule in self.auto]
        present = np.array([(cells[i + MODE], cells[i + COEFFICIENTS]) for i in starts], dtype=np.int64)
        costs, trends = shadow(
            self.blocks[trial], present, self._limits, self._candidates, self._periods, *self._season(trial)
        )
        changes = [
            change
            for k, (_, rule) in enumerate(self.auto)
            if (change := self._find_change(row, rule.first_slot, costs[k], trends[k])) is not None
        ]
        cells[start + TRIAL] = 0
        cells[start + DUE] = cells[start] + min(max(cells[start], BLOCK), MAX_INTERVAL)
        self._free.append(trial)
        if changes:
            for change in changes:
                self.table.switch(row, change)
                self._make_default(change)
            self.pending.append((row, tuple(changes)))

    def _season(self, trial: int) -> tuple[Any, Any, int]:
        if trial not in self._seasons:
            empty = np.zeros(0, dtype=np.int64)
            return empty, np.zeros(len(self.auto), dtype=np.int64), 0
        ordinal, season = self._seasons.pop(trial)
        first = HEADER_CELLS + SLOT_CELLS * self.table.slots
        starts = [self.table.ring_start[rule.first_slot] - first for _, rule in self.auto]
        return np.array(season, dtype=np.int64), np.array(starts, dtype=np.int64), ordinal + 1

    def _find_change(self, row: int, slot: int, costs: Any, trends: Any) -> PredictorChange | None:
        i = self.table.slot_start(row, slot)
        mode, coefficients = self.table.cells[i + MODE], self.table.cells[i + COEFFICIENTS]
        same = (self._candidates[:, 0] == mode) & (self._candidates[:, 1] == coefficients)
        present = int(costs[same][0]) if same.any() else 1 << 40
        best = int(np.argmin(costs))
        if int(costs[best]) * 16 + MARGIN * 16 > present * 15:
            return None
        kind = int(self._candidates[best, 0])
        trend = int(trends[best]) if kind & 15 == arithmetic.TREND and trends[best] != UNSET else 0
        return PredictorChange(slot, kind, int(self._candidates[best, 1]), trend)

    def _make_default(self, change: PredictorChange) -> None:
        """Make the selected predictor the initial one of new sources."""
        first = HEADER_CELLS + change.slot * SLOT_CELLS
        self.table.blank[first + MODE] = change.mode
        self.table.blank[first + COEFFICIENTS] = change.coefficients
