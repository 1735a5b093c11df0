"""The logs of a world of classes: numbered messages in memory, with conflicts, holes and altered messages."""

from __future__ import annotations

from collections.abc import Iterator

from thinwire.brokers.protocol_broker import ANY, NOTHING, Stored
from thinwire.errors import Conflict


class Log:
    """Messages under subjects, numbered from 1 on; a write may insist on the last one of a channel or a publisher.

    >>> log = Log()
    >>> log.append("tw.log.t.p.d", b"one", 0.0, after=NOTHING, within="tw.log.t.p.*")
    1
    >>> log.append("tw.log.t.p.k", b"two", 0.0, after=NOTHING, within="tw.log.t.p.*")
    Traceback (most recent call last):
        ...
    thinwire.errors.Conflict: somebody else wrote first: last=1. Read again, decide again, write again.
    """

    def __init__(self) -> None:
        self._messages: list[Stored | None] = []
        self._under: dict[str, list[int]] = {}

    @property
    def end(self) -> int:
        """The offset of the last message."""
        return len(self._messages)

    def append(self, subject: str, payload: bytes, time: float, *, after: int = ANY, within: str = "") -> int:
        """Store a message; `Conflict` if the last one under `within` is not `after`."""
        if after != ANY:
            last = self._under.get(within, [NOTHING])[-1]
            if last != after:
                raise Conflict(last=last)
        offset = self.end + 1
        self._messages.append(Stored(offset, subject, payload, time))
        for name in (subject, _all(subject)):
            self._under.setdefault(name, []).append(offset)
        return offset

    def skip(self) -> None:
        """A number without a message: it was stored and could not be kept."""
        self._messages.append(None)

    def read(self, first: int, count: int | None = None) -> Iterator[Stored]:
        """Messages from an offset on, at most so many numbers of them."""
        last = self.end if count is None else min(self.end, first + count - 1)
        return (stored for stored in self._messages[max(first, 1) - 1 : last] if stored is not None)

    def back(self, pattern: str, up_to: int | None = None) -> Iterator[Stored]:
        """Messages under a subject, or under all subjects of a channel or publisher (`.*`), the newest first."""
        for offset in reversed(self._under.get(pattern, ())):
            stored = self._messages[offset - 1]
            if stored is not None and (up_to is None or offset <= up_to):
                yield stored

    def last(self, pattern: str, up_to: int | None = None) -> Stored | None:
        """The newest message under subjects that match."""
        return next(self.back(pattern, up_to), None)


def _all(subject: str) -> str:
    return subject[: subject.rindex(".")] + ".*"
