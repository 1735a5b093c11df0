"""`auto`: predictors on trial.

For each source and number, a block of events is kept now and then, every candidate is run over it in closed loop, and
the one that would have cost the fewest bits takes over if it beats the present one clearly. The change travels as a
switch, so that both ends agree. A source is tried at its start and then ever more rarely; the number of blocks kept at
a time is bounded, and a new source starts with what was last found best.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from thinwire.codec.kernels.predictor_costs import shadow
from thinwire.codec.predictors import predictor as steps
from thinwire.codec.predictors.catalogue import candidates
from thinwire.codec.source_table import COEFFICIENTS, DUE, FIELDS, FILLED, HEAD, MODE, TRIAL, SourceTable
from thinwire.codec.ticks import UNSET
from thinwire.wire.control_frames import PredictorChange
from thinwire.wire.partial_event import EncodingKind

BLOCK = 64
POOL = 1_024
LONGEST_REST = 4_096
MARGIN = 96
"""bits over a block by which a change must pay"""


class Trials:
    """The trials of one link's publisher."""

    def __init__(self, columns: SourceTable) -> None:
        self.columns = columns
        self.auto = [
            (i, rule) for i, rule in enumerate(columns.rules.rules) if rule.auto and rule.lane is EncodingKind.TICK
        ]
        self.blocks = np.zeros((POOL, BLOCK, max(1, len(self.auto))), dtype=np.int64)
        self._free = list(range(POOL - 1, -1, -1))
        self._seasons: dict[int, Any] = {}
        self._pick = itemgetter(*(i for i, _ in self.auto)) if self.auto else None
        self._candidates = np.array(candidates(), dtype=np.int64)
        self._limits = np.array([(rule.tolerance, rule.half) for _, rule in self.auto], dtype=np.int64).reshape(-1, 2)
        self._periods = np.array([rule.property.period or 0 for _, rule in self.auto], dtype=np.int64)
        self._pending: list[tuple[int, tuple[PredictorChange, ...]]] = []

    def offer(self, row: int, ticks: tuple[Any, ...]) -> None:
        """An event of a source whose trial is due or under way."""
        if self._pick is None:
            return
        table, start = self.columns.table, row * self.columns.width
        trial, filled = table[start + TRIAL], table[start + FILLED]
        if trial:
            self.blocks[trial - 1, filled] = self._pick(ticks)
            table[start + FILLED] = filled + 1
        self.attend(row)

    def attend(self, row: int) -> None:
        """Begin a trial that is due, or judge one that is complete."""
        table, start = self.columns.table, row * self.columns.width
        if not table[start + TRIAL]:
            self._begin(row)
        elif table[start + FILLED] == BLOCK:
            self._judge(row)

    @property
    def decided(self) -> bool:
        """Are there changes that have not been told?"""
        return bool(self._pending)

    def drain(self) -> list[tuple[int, tuple[PredictorChange, ...]]]:
        """The changes decided since the last call: row and what changes."""
        pending, self._pending = self._pending, []
        return pending

    def _begin(self, row: int) -> None:
        table, start = self.columns.table, row * self.columns.width
        if not self._free:
            table[start + DUE] = table[start] + BLOCK
            return
        trial = self._free.pop()
        table[start + TRIAL], table[start + FILLED], table[start + DUE] = trial + 1, 0, table[start] + 1
        if self.columns.ring_width:
            season = table[start + HEAD + FIELDS * self.columns.slots : start + self.columns.width]
            self._seasons[trial] = (table[start], season)

    def _judge(self, row: int) -> None:
        table, start = self.columns.table, row * self.columns.width
        trial = table[start + TRIAL] - 1
        places = [self.columns.place(row, rule.first_slot) for _, rule in self.auto]
        present = np.array([(table[i + MODE], table[i + COEFFICIENTS]) for i in places], dtype=np.int64)
        costs, trends = shadow(
            self.blocks[trial], present, self._limits, self._candidates, self._periods, *self._season(trial)
        )
        changes = [
            change
            for k, (_, rule) in enumerate(self.auto)
            if (change := self._better(row, rule.first_slot, costs[k], trends[k])) is not None
        ]
        table[start + TRIAL] = 0
        table[start + DUE] = table[start] + min(max(table[start], BLOCK), LONGEST_REST)
        self._free.append(trial)
        if changes:
            for change in changes:
                self.columns.switch(row, change)
                self._remember(change)
            self._pending.append((row, tuple(changes)))

    def _season(self, trial: int) -> tuple[Any, Any, int]:
        if trial not in self._seasons:
            empty = np.zeros(0, dtype=np.int64)
            return empty, np.zeros(len(self.auto), dtype=np.int64), 0
        ordinal, season = self._seasons.pop(trial)
        first = HEAD + FIELDS * self.columns.slots
        starts = [self.columns.ring_start[rule.first_slot] - first for _, rule in self.auto]
        return np.array(season, dtype=np.int64), np.array(starts, dtype=np.int64), ordinal + 1

    def _better(self, row: int, slot: int, costs: Any, trends: Any) -> PredictorChange | None:
        i = self.columns.place(row, slot)
        mode, coefficients = self.columns.table[i + MODE], self.columns.table[i + COEFFICIENTS]
        same = (self._candidates[:, 0] == mode) & (self._candidates[:, 1] == coefficients)
        present = int(costs[same][0]) if same.any() else 1 << 40
        best = int(np.argmin(costs))
        if int(costs[best]) * 16 + MARGIN * 16 > present * 15:
            return None
        kind = int(self._candidates[best, 0])
        trend = int(trends[best]) if kind & 15 == steps.TREND and trends[best] != UNSET else 0
        return PredictorChange(slot, kind, int(self._candidates[best, 1]), trend)

    def _remember(self, change: PredictorChange) -> None:
        """New sources start with what an old one was found to do best with."""
        first = HEAD + change.slot * FIELDS
        self.columns.blank[first + MODE] = change.mode
        self.columns.blank[first + COEFFICIENTS] = change.coefficients
