"""Pacing: what an event's own time has to say. Late ones may be refused, and `min_interval` holds back the hasty."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from thinwire.codec.demand import NEVER_TOLERANT
from thinwire.codec.rules import Rule
from thinwire.codec.source_table_columns import LATEST, TOLD, TRAVELLED, Columns
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.codec.value_conversion import restorer
from thinwire.errors import LateEvent
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import Lane

LatePolicy = Literal["accept", "reject"]


class Pacing:
    """The clock of every source of a link, as its own events tell it."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        wire = columns.rules.schema.wire
        self.time = next((i for i, p in enumerate(wire) if p is columns.rules.schema.time), None)

    def begin(self, row: int, ticks: tuple[Any, ...]) -> None:
        """The first event of a source."""
        start, now = row * self.columns.width, self._instant(ticks)
        self.columns.table[start + LATEST] = self.columns.table[start + TRAVELLED] = ABSENT if now is None else now

    def resume(self) -> None:
        """Sources taken over from others, who may not have looked at the time: their state knows it."""
        if self.time is not None and self.columns.rows:
            table = self.columns.by_row()
            known = table[:, self.columns.place(0, self.columns.rules.rules[self.time].first_slot)]
            table[:, LATEST] = np.maximum(table[:, LATEST], known)

    def check(self, row: int, ticks: tuple[Any, ...], source: tuple[Any, ...]) -> None:
        """Refuse an event older than the latest of its source."""
        now = self._instant(ticks)
        if now is None or self.time is None:
            return
        latest = row * self.columns.width + LATEST
        if now < self.columns.table[latest]:
            p = self.columns.rules.schema.wire[self.time]
            show = restorer(p)
            raise LateEvent(property=p.name, source=source, time=show(now), latest=show(self.columns.table[latest]))
        self.columns.table[latest] = now

    def holds_back(self, row: int, ticks: tuple[Any, ...]) -> bool:
        """Is this event too soon after the last one that was let through, with nothing in it that must not wait?

        A clock that was set back by more than the interval starts a new one.
        """
        now = self._instant(ticks)
        if now is None:
            return False
        table, travelled = self.columns.table, row * self.columns.width + TRAVELLED
        apart = now - table[travelled]
        if not -self.columns.rules.min_interval < apart < self.columns.rules.min_interval or self._urgent(row, ticks):
            table[travelled] = now
            return False
        self.columns.advance(row)
        return True

    def _urgent(self, row: int, ticks: tuple[Any, ...]) -> bool:
        """Status, flags, texts, absences and readings out of range never wait; nor does an overlong silence."""
        rules = self.columns.rules.rules
        if any(self._must_not_wait(row, index, rule, ticks[index]) for index, rule in enumerate(rules)):
            return True
        start = row * self.columns.width
        return self.columns.table[start] - self.columns.table[start + TOLD] >= MAX_SKIP - 1

    def _must_not_wait(self, row: int, index: int, rule: Rule, now: Any) -> bool:
        if not rule.slots:
            last = self.columns.objects[index][row]
            return bool(now != last) if rule.lane is Lane.TEXT else (now is None) != (last is None)
        last = self.columns.last(row, rule.first_slot)
        if rule.lane is Lane.GEO:
            return (now is None) != (last == ABSENT)
        if rule.lane is Lane.FLAG or rule.property.domain in NEVER_TOLERANT:
            return bool(now != last)
        if ABSENT in (now, last):
            return bool(now != last)
        return rule.lane is Lane.TICK and not rule.lowest <= now <= rule.highest

    def _instant(self, ticks: tuple[Any, ...]) -> int | None:
        """The event's time, where it is one that can be counted with."""
        if self.time is None or not -TICK_LIMIT <= ticks[self.time] <= TICK_LIMIT:
            return None
        now: int = ticks[self.time]
        return now
