"""Who owes the next part of its key frames: it follows on an event, so whoever owes one must look at the next."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Generic, Protocol, TypeVar

from thinwire.codec import StreamEncoder


class ScheduledStream(Protocol):
    """Who may owe something: the link that says when, and whether it is not in step any more."""

    link: StreamEncoder
    gone: bool


D = TypeVar("D", bound=ScheduledStream)


class KeyFrameSchedule(Generic[D]):
    """Holders by when they owe something."""

    def __init__(self) -> None:
        self._later: list[tuple[float, int, D]] = []
        self._now: list[D] = []
        self._turns = count()

    def schedule(self, holder: D) -> None:
        """It owes something at the time its link says."""
        heappush(self._later, (holder.link.due, next(self._turns), holder))

    def advance(self, now: float) -> None:
        """It is so late now."""
        while self._later and self._later[0][0] <= now:
            self._now.append(heappop(self._later)[2])

    def due(self, now: float) -> list[D]:
        """Those who owe something."""
        due, self._now = self._now, []
        for holder in due:
            if not holder.gone and holder.link.is_due(now):
                self._now.append(holder)
            elif not holder.gone:  # it was asked for a whole round meanwhile
                self.schedule(holder)
        return self._now

    def reschedule(self, holder: D) -> None:
        """It has told what it owed."""
        self._now = [other for other in self._now if other is not holder]
        self.schedule(holder)

    def reschedule_all(self) -> None:
        """All who owed something have told it."""
        paid, self._now = self._now, []
        for holder in paid:
            self.schedule(holder)
