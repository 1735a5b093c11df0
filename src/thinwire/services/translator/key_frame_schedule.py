"""Schedule of key frames.

A key frame is attached to the next event of a stream. A stream with a due key frame must therefore process that event,
even if no value changed.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Generic, Protocol, TypeVar

from thinwire.codec import StreamEncoder


class ScheduledStream(Protocol):
    """The owner of a stream encoder; it is dropped from the schedule once it is closed."""

    stream: StreamEncoder
    is_closed: bool


S = TypeVar("S", bound=ScheduledStream)


class KeyFrameSchedule(Generic[S]):
    """Streams ordered by the time of their next key frame."""

    def __init__(self) -> None:
        self._upcoming: list[tuple[float, int, S]] = []  # a heap; the counter breaks ties
        self._due: list[S] = []
        self._counter = count()

    def schedule(self, owner: S) -> None:
        """Schedule the next key frame of a stream."""
        heappush(self._upcoming, (owner.stream.due, next(self._counter), owner))

    def advance(self, now: float) -> None:
        """Move every stream whose key frame is due at `now` to the due list."""
        while self._upcoming and self._upcoming[0][0] <= now:
            self._due.append(heappop(self._upcoming)[2])

    def due(self, now: float) -> list[S]:
        """Return the due streams. Streams that have sent key frames on request meanwhile are scheduled again."""
        due, self._due = self._due, []
        for owner in due:
            if not owner.is_closed and owner.stream.is_due(now):
                self._due.append(owner)
            elif not owner.is_closed:
                self.schedule(owner)
        return self._due

    def reschedule(self, owner: S) -> None:
        """Remove a stream from the due list after its key frame was sent, and schedule the next one."""
        self._due = [other for other in self._due if other is not owner]
        self.schedule(owner)

    def reschedule_all(self) -> None:
        """Schedule the next key frame of all due streams."""
        sent, self._due = self._due, []
        for owner in sent:
            self.schedule(owner)
