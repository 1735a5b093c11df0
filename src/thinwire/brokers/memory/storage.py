"""Storage of the memory broker: messages of logs, documents of buckets, and change notification.

>>> documents = Documents("registry")
>>> documents.put("topic.rooms", b"{}", NOTHING)
1
>>> documents.put("topic.rooms", b"{...}", 1)
2
>>> documents.delete("topic.rooms", ANY)
>>> documents.changes_after(0), documents.get("topic.rooms")
([BucketEntry(key='topic.rooms', value=None, revision=3)], None)

>>> from thinwire.clock import VirtualClock
>>> log = MessageLog("rooms", ["rooms.*"], Retention(max_messages=2), VirtualClock())
>>> [log.store(subject, b"21.5") for subject in ("rooms.a", "rooms.b", "rooms.a")]
[1, 2, 3]
>>> log.span()
Span(first=2, last=3, messages=2, stored_bytes=22, log_id='')
>>> log.last("rooms.*", up_to=2).subject
'rooms.b'
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence

from thinwire.brokers.protocol import ANY, NOTHING, BucketEntry, Retention, Span, StoredMessage
from thinwire.brokers.subjects import check_pattern, check_subject, matches
from thinwire.clock import Clock
from thinwire.errors import BadSubject, Conflict


class WakeUp:
    """Wakes the tasks that wait for a change. Each task then checks the state, so a superfluous `notify` is harmless.

    >>> wake_up = WakeUp()
    >>> async def wait_and_notify():
    ...     asyncio.get_running_loop().call_soon(wake_up.notify)
    ...     await wake_up.wait()
    ...     return "awake"
    >>> asyncio.run(wait_and_notify())
    'awake'
    """

    def __init__(self) -> None:
        self._futures: dict[asyncio.Future[None], None] = {}

    def notify(self) -> None:
        for future in self._futures:
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._futures[future] = None
        try:
            await future
        finally:
            del self._futures[future]


class Watchers(dict[WakeUp, None]):
    """The `WakeUp`s to notify of changes of one object, in the order of registration so that runs are reproducible."""

    def notify(self) -> None:
        for wake_up in self:
            wake_up.notify()


class Documents:
    """The documents of a bucket: the newest entry of each key, ordered by revision.

    A deleted key keeps an entry without a value. A watch that lags behind receives only the newest entry of each key.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.watchers = Watchers()
        self._entries: dict[str, BucketEntry] = {}
        self._revision = 0

    def get(self, key: str) -> BucketEntry | None:
        check_subject(key)
        entry = self._entries.get(key)
        return None if entry is None or entry.value is None else entry

    def put(self, key: str, value: bytes, revision: int) -> int:
        """Store a document. Raise `Conflict` if the last revision of the key is not `revision`."""
        self._check_revision(key, revision)
        return self._write(key, value)

    def delete(self, key: str, revision: int) -> None:
        """Delete a document, if it exists. Raise `Conflict` if its revision is not `revision`."""
        if self.get(key) is not None:
            self._check_revision(key, revision)
            self._write(key, None)

    def changes_after(self, revision: int, pattern: str = ">") -> list[BucketEntry]:
        """Return the entries that changed after `revision`, ordered by revision."""
        check_pattern(pattern)
        newer = []
        for entry in reversed(self._entries.values()):
            if entry.revision <= revision:
                break
            newer.append(entry)
        return [entry for entry in reversed(newer) if matches(pattern, entry.key)]

    def entries(self, pattern: str) -> list[BucketEntry]:
        """Return the existing documents, ordered by revision."""
        return [entry for entry in self.changes_after(0, pattern) if entry.value is not None]

    def _check_revision(self, key: str, revision: int) -> None:
        existing = self.get(key)
        last = self._entries[key].revision if key in self._entries else NOTHING
        if revision not in (ANY, last) and not (revision == NOTHING and existing is None):
            raise Conflict(bucket=self.name, key=key, expected=revision, last=last)

    def _write(self, key: str, value: bytes | None) -> int:
        self._revision += 1
        self._entries.pop(key, None)  # the dict stays ordered by revision, which `changes_after` relies on
        self._entries[key] = BucketEntry(key, value, self._revision)
        self.watchers.notify()
        return self._revision


class MessageLog:
    """The messages of one log, numbered over all subjects. `watchers` are notified of new messages and of deletion.

    Retention is applied on each call, without a timer.
    """

    def __init__(
        self, name: str, patterns: Sequence[str], retention: Retention, clock: Clock, *, log_id: str = ""
    ) -> None:
        for pattern in patterns:
            check_pattern(pattern)
        self.name = name
        self.patterns = tuple(patterns)
        self.retention = retention
        self.clock = clock
        self.log_id = log_id
        self.is_deleted = False
        self.watchers = Watchers()
        self._messages: dict[int, StoredMessage] = {}
        self._offsets: dict[str, deque[int]] = {}
        self._first, self._last = 1, 0
        self._stored_bytes = 0
        self._last_time = 0.0

    def store(self, subject: str, payload: bytes, expected_last: int = ANY, last_pattern: str = "") -> int:
        """Store a message under the next offset. The arguments have the meaning of those of `Broker.append`."""
        if expected_last != ANY:
            self._check_last(last_pattern or subject, expected_last)
        if subject not in self._offsets:
            self._check_subject(subject)
            self._offsets[subject] = deque()
        now = self.clock.now()
        # The times of a log never decrease, even if the clock is set back: `offset_at` bisects them.
        self._last_time = max(self._last_time, now)
        self._last += 1
        self._messages[self._last] = StoredMessage(self._last, subject, payload, self._last_time)
        self._offsets[subject].append(self._last)
        self._stored_bytes += len(subject) + len(payload)
        self._apply_retention(now)
        self.watchers.notify()
        return self._last

    def delete(self) -> None:
        """Mark the log as deleted and wake its readers."""
        self.is_deleted = True
        self.watchers.notify()

    def next(self, first: int, is_selected: Mapping[str, bool]) -> StoredMessage | None:
        """Return the first message at or after offset `first` whose subject is selected, as by a `SubjectFilter`."""
        if first <= self._last:
            self._apply_retention(self.clock.now())
        for offset in range(max(first, self._first), self._last + 1):
            message = self._messages[offset]
            if is_selected[message.subject]:
                return message
        return None

    def last(self, pattern: str, up_to: int | None = None) -> StoredMessage | None:
        """Return the newest message whose subject matches, at or before offset `up_to` if given."""
        self._apply_retention(self.clock.now())
        limit = self._last if up_to is None else up_to
        newest = NOTHING
        for offsets in self._matching(pattern).values():
            index = bisect_right(offsets, limit)
            newest = max(newest, offsets[index - 1] if index else NOTHING)
        return self._messages.get(newest)

    def subjects(self, pattern: str) -> dict[str, int]:
        """Return the matching subjects that have messages, with their number of messages."""
        self._apply_retention(self.clock.now())
        return {subject: len(offsets) for subject, offsets in self._matching(pattern).items()}

    def offset_at(self, time: float) -> int:
        """Return the offset of the first message stored at or after `time`."""
        self._apply_retention(self.clock.now())
        retained = range(self._first, self._last + 1)
        return self._first + bisect_left(retained, time, key=lambda offset: self._messages[offset].time)

    def span(self) -> Span:
        self._apply_retention(self.clock.now())
        return Span(self._first, self._last, len(self._messages), self._stored_bytes, self.log_id)

    def _matching(self, pattern: str) -> dict[str, deque[int]]:
        check_pattern(pattern)
        return {subject: offsets for subject, offsets in self._offsets.items() if matches(pattern, subject)}

    def _check_subject(self, subject: str) -> None:
        check_subject(subject)
        if not any(matches(pattern, subject) for pattern in self.patterns):
            raise BadSubject(
                "the log does not store this subject", subject=subject, log=self.name, subjects=self.patterns
            )

    def _check_last(self, pattern: str, expected: int) -> None:
        newest = self.last(pattern)
        last = NOTHING if newest is None else newest.offset
        if last != expected:
            raise Conflict(log=self.name, subjects=pattern, expected=expected, last=last)

    def _apply_retention(self, now: float) -> None:
        limits = self.retention
        while self._messages and (
            (limits.max_age is not None and self._messages[self._first].time < now - limits.max_age)
            or (limits.max_bytes is not None and self._stored_bytes > limits.max_bytes)
            or (limits.max_messages is not None and len(self._messages) > limits.max_messages)
        ):
            oldest = self._messages.pop(self._first)
            self._first += 1
            self._stored_bytes -= len(oldest.subject) + len(oldest.payload)
            offsets = self._offsets[oldest.subject]
            offsets.popleft()
            if not offsets:
                del self._offsets[oldest.subject]
