"""The way of a publisher's frames into its log: gathered, one message in flight, each stored once.

Frames gather for `linger` seconds or until `max_batch` bytes, and while a message is on its way: a slow link makes
larger messages, not more of them. A frame that begins a round of key frames stands alone, under a subject of its own,
so that the log has an index.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from thinwire.brokers.protocol import ANY, Broker
from thinwire.errors import (
    BrokerRefused,
    BrokerUnavailable,
    Conflict,
    IdentityTaken,
    ThinwireError,
    TransportClosed,
)
from thinwire.topics.names import data_subject, key_subject, log_of, publisher_subjects
from thinwire.wire import begins_round, join

FENCE_AFTER = 1.0
"""seconds since the last message that was stored was sent, after which somebody else may have taken the name"""
PATIENCE = 2.0
"""seconds for one attempt to store a message; it is tried again for ever"""
COMPLAIN_EVERY = 30.0
"""seconds between two complaints about a broker that does not take it"""
_LENGTH = 5
"""bytes that tell a frame's length in a batch, at most"""

_log = logging.getLogger("thinwire.client")


class Outbox:
    """Frames waiting for the broker, at most `max_pending` bytes.

    last: the offset of the publisher's last message in the log, 0 where there is none
    messages: how many were stored
    failure, raised: what stopped it for good, and whether anybody has been told
    """

    def __init__(
        self, broker: Broker, topic: str, publisher: str, *, last: int, linger: float, max_batch: int, max_pending: int
    ) -> None:
        self.topic = topic
        self.publisher = publisher
        self.last = last
        self.linger = linger
        self.max_batch = min(max_batch, broker.capabilities.max_payload)
        self.max_pending = max_pending
        self.messages = 0
        self.failure: ThinwireError | None = None
        self.raised = False
        self._trouble: BrokerUnavailable | BrokerRefused | None = None
        self._complained = -COMPLAIN_EVERY
        self._broker = broker
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._hurried = False
        self._sent = -FENCE_AFTER
        self._some = asyncio.Event()
        self._enough = asyncio.Event()
        self._room = asyncio.Event()
        self._empty = asyncio.Event()
        self._room.set()
        self._empty.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to send."""
        self._task = asyncio.create_task(self._send_all(), name=f"outbox {self.topic} {self.publisher}")

    @property
    def full(self) -> bool:
        return self._size >= self.max_pending

    def put(self, frames: list[bytes]) -> None:
        """Take frames in their order."""
        if not frames:
            return
        self._waiting.extend(frames)
        self._size += sum(map(len, frames))
        self._empty.clear()
        self._some.set()
        if self._size >= self.max_batch:
            self._enough.set()
        if self.full:
            self._room.clear()

    async def room(self) -> None:
        """Wait until more frames may be put; raises what stopped the outbox."""
        await self._unless_failed(self._room)

    async def drained(self, timeout: float | None = None) -> None:
        """Wait until everything put so far is stored."""
        self._hurried = True
        self._enough.set()
        try:
            async with asyncio.timeout(timeout):
                await self._unless_failed(self._empty)
        except TimeoutError:
            kind = type(self._trouble) if self._trouble is not None else BrokerUnavailable
            why = f": {self._trouble.detail}" if self._trouble is not None and self._trouble.detail else ""
            raise kind(f"not everything is stored{why}", topic=self.topic, waited=timeout) from None
        finally:
            self._hurried = False

    async def close(self) -> None:
        """Stop sending; what still waits is given up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(TransportClosed())

    def check(self) -> None:
        """Raise what stopped the outbox, if something did."""
        if self.failure is not None:
            self.raised = True
            raise self.failure

    async def _unless_failed(self, event: asyncio.Event) -> None:
        self.check()
        await event.wait()
        self.check()

    def _fail(self, failure: ThinwireError) -> None:
        if self.failure is None:
            self.failure = failure
        self._room.set()
        self._empty.set()

    async def _send_all(self) -> None:
        try:
            while True:
                await self._some.wait()
                await self._gather()
                await self._send(*self._next_message())
        except ThinwireError as failure:
            self._fail(failure)

    async def _gather(self) -> None:
        if self.linger and not self._hurried:
            try:
                async with asyncio.timeout(self.linger):
                    await self._enough.wait()
            except TimeoutError:
                pass

    def _next_message(self) -> tuple[str, bytes]:
        """As many frames as share a message."""
        first = self._waiting.popleft()
        self._size -= len(first)
        if begins_round(first):
            return key_subject(self.topic, self.publisher), first
        frames, size = [first], 1 + _LENGTH + len(first)
        while self._waiting and size + _LENGTH + len(self._waiting[0]) <= self.max_batch:
            if begins_round(self._waiting[0]):
                break
            frame = self._waiting.popleft()
            self._size -= len(frame)
            size += _LENGTH + len(frame)
            frames.append(frame)
        return data_subject(self.topic, self.publisher), first if len(frames) == 1 else join(frames)

    async def _send(self, subject: str, payload: bytes) -> None:
        if not self._waiting:
            self._some.clear()
        if self._size < self.max_batch and not self._hurried:
            self._enough.clear()
        self.last = await self._store(subject, payload)
        self.messages += 1
        if not self.full:
            self._room.set()
        if not self._waiting:
            self._empty.set()

    async def _store(self, subject: str, payload: bytes) -> int:
        """The offset of the message once it is stored, however long that takes.

        `_sent` is when that was decided: what the acknowledgement of a message proves is no later than that.
        """
        loop = asyncio.get_running_loop()
        while True:
            decided = loop.time()
            try:
                offset = await self._append(subject, payload, fenced=decided - self._sent >= FENCE_AFTER)
            except (BrokerUnavailable, BrokerRefused) as trouble:
                self._trouble = trouble
                self._complain(self._size + len(payload))
                await asyncio.sleep(min(1.0, PATIENCE))
                continue
            self._trouble, self._sent = None, decided
            return offset

    async def _append(self, subject: str, payload: bytes, *, fenced: bool) -> int:
        within = publisher_subjects(self.topic, self.publisher)
        after, over = (self.last, within) if fenced else (ANY, "")
        try:
            offset = await self._broker.append(
                log_of(self.topic), subject, payload, after=after, within=over, timeout=PATIENCE
            )
        except Conflict:
            return await self._own(subject, payload)
        if not fenced and asyncio.get_running_loop().time() - self._sent >= FENCE_AFTER:
            await self._check(within, offset)
        return offset

    async def _check(self, within: str, offset: int) -> None:
        """A message was long on its way, and insisted on nothing: has somebody else spoken under the name before it?"""
        before = await self._broker.last(log_of(self.topic), within, up_to=offset - 1)
        if before is not None and before.offset > self.last:
            raise IdentityTaken(topic=self.topic, name=self.publisher)

    def _complain(self, waiting: int) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._complained >= COMPLAIN_EVERY:
            self._complained = now
            _log.warning("%s: %d bytes wait and are kept. %s", self.topic, waiting, self._trouble)

    async def _own(self, subject: str, payload: bytes) -> int:
        """The log went on: with this very message, sent before an answer was lost, or with somebody else's."""
        newest = await self._broker.last(log_of(self.topic), publisher_subjects(self.topic, self.publisher))
        if newest is None:  # the log has forgotten everything that was said under this name
            return await self._broker.append(log_of(self.topic), subject, payload, timeout=PATIENCE)
        if newest.offset <= self.last or (newest.subject, newest.payload) != (subject, payload):
            raise IdentityTaken(topic=self.topic, name=self.publisher)
        return newest.offset
