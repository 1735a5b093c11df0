"""How somebody who waits hears that something has changed.

The documents of one bucket as the server keeps them: the last of each key, under the revision of its change.

>>> documents = Documents("registry")
>>> documents.put("topic.rooms", b"{}", NOTHING)
1
>>> documents.put("topic.rooms", b"{...}", 1)
2
>>> documents.delete("topic.rooms", ANY)
>>> documents.since(0), documents.get("topic.rooms")
([BucketEntry(key='topic.rooms', value=None, revision=3)], None)

The messages of one log as the server keeps them: numbered over all subjects, the oldest gone when there is a limit.

>>> from thinwire.clock import VirtualClock
>>> log = MessageLog("rooms", ["rooms.*"], Retention(messages=2), VirtualClock())
>>> [log.store(subject, b"21.5") for subject in ("rooms.a", "rooms.b", "rooms.a")]
[1, 2, 3]
>>> log.span()
Span(first=2, last=3, messages=2, stored_bytes=22, made='')
>>> log.last("rooms.*", up_to=2).subject
'rooms.b'
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence

from thinwire.brokers.protocol import ANY, NOTHING, BucketEntry, Retention, Span, Stored
from thinwire.brokers.subjects import check_pattern, check_subject, matches
from thinwire.clock import Clock
from thinwire.errors import BadSubject, Conflict


class WakeUp:
    """Wakes whoever waits. What has changed they look up themselves, so a ring too many does no harm.

    >>> bell = WakeUp()
    >>> async def wait_and_ring():
    ...     asyncio.get_running_loop().call_soon(bell.notify)
    ...     await bell.wait()
    ...     return "awake"
    >>> asyncio.run(wait_and_ring())
    'awake'
    """

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)


class Documents:
    """Entries by key, in the order of their revisions; what was deleted stays as an entry without a value.

    Whoever watches and lags behind is told the newest of each key, not what was in between.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.listeners: set[WakeUp] = set()
        self._entries: dict[str, BucketEntry] = {}
        self._revision = 0

    def get(self, key: str) -> BucketEntry | None:
        check_subject(key)
        entry = self._entries.get(key)
        return None if entry is None or entry.value is None else entry

    def put(self, key: str, value: bytes, revision: int) -> int:
        """Keep a document if the last one has this revision."""
        self._check(key, revision)
        return self._write(key, value)

    def delete(self, key: str, revision: int) -> None:
        """Forget a document if it has this revision; no harm if there is none."""
        if self.get(key) is not None:
            self._check(key, revision)
            self._write(key, None)

    def since(self, revision: int, pattern: str = ">") -> list[BucketEntry]:
        """What has changed after this revision, in order."""
        check_pattern(pattern)
        newer = []
        for entry in reversed(self._entries.values()):
            if entry.revision <= revision:
                break
            newer.append(entry)
        return [entry for entry in reversed(newer) if matches(pattern, entry.key)]

    def entries(self, pattern: str) -> list[BucketEntry]:
        """The documents that are there, in the order of their revisions."""
        return [entry for entry in self.since(0, pattern) if entry.value is not None]

    def _check(self, key: str, revision: int) -> None:
        there = self.get(key)
        last = self._entries[key].revision if key in self._entries else NOTHING
        if revision not in (ANY, last) and not (revision == NOTHING and there is None):
            raise Conflict(bucket=self.name, key=key, expected=revision, last=last)

    def _write(self, key: str, value: bytes | None) -> int:
        self._revision += 1
        self._entries.pop(key, None)  # the newest stands last: `since` looks from the end
        self._entries[key] = BucketEntry(key, value, self._revision)
        for bell in self.listeners:
            bell.notify()
        return self._revision


class MessageLog:
    """Messages under offsets; `listeners` are the bells of those who read.

    Time passes only when somebody looks: what is too old is dropped on the next call, and there is no timer to stop.
    """

    def __init__(self, name: str, patterns: Sequence[str], retention: Retention, clock: Clock) -> None:
        for pattern in patterns:
            check_pattern(pattern)
        self.name = name
        self.patterns = tuple(patterns)
        self.retention = retention
        self.clock = clock
        self.deleted = False
        self.listeners: set[WakeUp] = set()
        self._messages: dict[int, Stored] = {}
        self._offsets: dict[str, deque[int]] = {}
        self._first, self._last = 1, 0
        self._size = 0
        self._time = 0.0

    def store(self, subject: str, payload: bytes) -> int:
        """Keep a message under the next offset."""
        self._check_kept(subject)
        # A clock that is set back must not make times run backwards along the log: `offset_at` halves its way.
        self._time = max(self._time, self.clock.now())
        self._last += 1
        self._messages[self._last] = message = Stored(self._last, subject, payload, self._time)
        self._offsets.setdefault(subject, deque()).append(self._last)
        self._size += _size(message)
        self._retain()
        self.ring()
        return message.offset

    def next(self, first: int, wanted: Callable[[str], bool]) -> Stored | None:
        """The first message from this offset on whose subject is wanted."""
        self._retain()
        places = range(max(first, self._first), self._last + 1)
        return next((self._messages[place] for place in places if wanted(self._messages[place].subject)), None)

    def last(self, pattern: str, up_to: int | None = None) -> Stored | None:
        """The newest message under subjects that match, at or before an offset where given."""
        self._retain()
        limit = self._last if up_to is None else up_to
        found = NOTHING
        for offsets in self._matching(pattern).values():
            place = bisect_right(offsets, limit)
            found = max(found, offsets[place - 1] if place else NOTHING)
        return self._messages.get(found)

    def subjects(self, pattern: str) -> dict[str, int]:
        """The subjects that have messages, with how many."""
        self._retain()
        return {subject: len(offsets) for subject, offsets in self._matching(pattern).items()}

    def offset_at(self, time: float) -> int:
        """The offset of the first message stored at this time or later."""
        self._retain()
        kept = range(self._first, self._last + 1)
        return self._first + bisect_left(kept, time, key=lambda offset: self._messages[offset].time)

    def span(self) -> Span:
        self._retain()
        return Span(self._first, self._last, len(self._messages), self._size)

    def ring(self) -> None:
        """Wake those who read."""
        for bell in self.listeners:
            bell.notify()

    def _matching(self, pattern: str) -> dict[str, deque[int]]:
        check_pattern(pattern)
        return {subject: offsets for subject, offsets in self._offsets.items() if matches(pattern, subject)}

    def _check_kept(self, subject: str) -> None:
        if subject not in self._offsets:
            check_subject(subject)
            if not any(matches(pattern, subject) for pattern in self.patterns):
                raise BadSubject("not one that this log keeps", subject=subject, log=self.name, keeps=self.patterns)

    def _retain(self) -> None:
        while self._messages and self._is_over(self._messages[self._first]):
            self._drop(self._messages.pop(self._first))

    def _is_over(self, oldest: Stored) -> bool:
        seconds, size, messages = self.retention.seconds, self.retention.size, self.retention.messages
        return (
            (seconds is not None and oldest.time < self.clock.now() - seconds)
            or (size is not None and self._size > size)
            or (messages is not None and len(self._messages) > messages)
        )

    def _drop(self, oldest: Stored) -> None:
        self._first += 1
        self._size -= _size(oldest)
        offsets = self._offsets[oldest.subject]
        offsets.popleft()
        if not offsets:
            del self._offsets[oldest.subject]


def _size(message: Stored) -> int:
    return len(message.subject) + len(message.payload)
