"""Batches instead of dictionaries, live: a paced stream of messages, joined for longer and longer lingers.

What is counted are the messages of the log as the broker keeps them (headers, key frames and heartbeats included) and,
with a dictionary, everything of dictionaries that came to the publisher: that is what one hop carries. Bytes on the
sockets are counted beside it, in both directions and for both ends.

What a log weighs at the broker, message by message.

Two ways to make a stream of messages smaller, each over a real broker: join and deflate them, or share a dictionary.

A publisher of thinwire joins what it says during a linger into one message of the broker, and packs every frame of it
by itself, so that readers need no other frame to read it. To deflate what was joined as a whole is left to `joined`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

import thinwire as tw
from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.protocol import Broker, LogReader
from thinwire.brokers.proxy import Proxy
from thinwire.client import Subscription
from thinwire.dictionaries.codecs import Deflate
from thinwire.errors import GuaranteeViolated
from thinwire.schema.schema import PAYLOAD
from thinwire.topics.names import log_of
from thinwire.wire import varint
from thinwire_lab.live.json_stack import BatchSender
from thinwire_lab.reproduce.dictionaries.byte_account import BATCHES
from thinwire_lab.reproduce.dictionaries.policy_cells import between, equal_at, shown

PATIENCE = 60.0
"""seconds for a message that is stored to come"""


class LogBytes(NamedTuple):
    """The messages of a log, their bytes, and what the broker stores for them."""

    messages: int
    size: int
    stored: int


async def weigh(broker: Broker, log: str) -> LogBytes:
    """Read a log from its first message to the one that is its last now."""
    span = await broker.span(log)
    reader = await broker.read(log, first=span.first)
    messages = size = offset = 0
    try:
        while offset < span.last and (stored := await reader.next(PATIENCE)) is not None:
            messages += 1
            size += len(stored.payload)
            offset = stored.offset
            reader.done(offset)
    finally:
        await reader.close()
    return LogBytes(messages, size, span.stored_bytes)


LARGEST = 1 << 20
"""bytes of a message, and of all that are joined in one"""


@dataclass(frozen=True)
class Line:
    """A publisher and a subscriber of one topic.

    arriving: what comes, as many messages as come together
    log: where the broker keeps it
    dictionary_bytes: how much of dictionaries, and of word of them, has come to the publisher so far
    """

    publish: Callable[[bytes], Awaitable[None]]
    flush: Callable[[], Awaitable[None]]
    arriving: AsyncGenerator[Sequence[bytes], None]
    log: str
    dictionary_bytes: Callable[[], int] = lambda: 0


Way = Callable[[str, str, float], AbstractAsyncContextManager[Line]]


@asynccontextmanager
async def joined(url: str, topic: str, linger: float) -> AsyncIterator[Line]:
    """What a team would do without dictionaries: all messages of a linger deflated as one."""
    log, subject = f"joined_{topic}", f"joined.{topic}"
    async with AsyncExitStack() as opened:
        sending, receiving = await _connected(opened, url), await _connected(opened, url)
        await sending.open_log(log, [subject])
        reader = await receiving.read(log)
        opened.push_async_callback(reader.close)
        sender = BatchSender(sending, log, subject, linger, together)
        opened.push_async_callback(sender.close)
        yield Line(lambda message: sender.publish([message]), sender.flush, _inflated(reader), log)


@asynccontextmanager
async def packed(url: str, topic: str, linger: float) -> AsyncIterator[Line]:
    """Every message a frame, packed with a dictionary of the dictionary service; frames of a linger are joined."""
    async with (
        tw.connect(url) as publishing,
        tw.connect(url) as subscribing,
        publishing.publisher(topic, linger=linger, dictionaries=True) as out,
        subscribing.subscribe(topic) as events,
    ):
        yield Line(out.publish, out.flush, _payloads(events), log_of(topic), lambda: out.dictionary_bytes)


WAYS: dict[str, Way] = {"deflate": joined, "dictionary": packed}


def together(messages: Sequence[bytes]) -> bytes:
    """Several messages as one; `apart` undoes it.

    >>> apart(together([b"on", b"", b"off"]))
    [b'on', b'', b'off']
    """
    return Deflate().pack(b"".join(map(varint.write_blob, messages)))


def apart(payload: bytes) -> list[bytes]:
    """The messages that were joined."""
    plain = Deflate().unpack(payload, LARGEST)
    messages, at = [], 0
    while at < len(plain):
        message, at = varint.read_blob(plain, at, LARGEST)
        messages.append(message)
    return messages


async def _inflated(reader: LogReader) -> AsyncGenerator[list[bytes], None]:
    while True:
        stored = await reader.next()
        if stored is not None:
            yield apart(stored.payload)
            reader.done(stored.offset)


async def _payloads(events: Subscription) -> AsyncGenerator[list[bytes], None]:
    async for batch in events.batches():
        yield [event[PAYLOAD] for event in batch]


async def _connected(opened: AsyncExitStack, url: str) -> Broker:
    from thinwire.brokers.nats.broker import connect

    broker = await connect(url)
    opened.push_async_callback(broker.close)
    return broker


RATE = 400.0
"""messages a second: one has arrived before the next is due, so that without a linger each travels alone"""
MESSAGES, FEW = 10_000, 400
"""of a stream, sent each way: in full, and where time presses"""
QUICK_BATCHES = (1, 5, 21)
TYPICAL = 21
"""messages that are joined where frames with a dictionary are joined too"""


@dataclass(frozen=True)
class StreamRun:
    """What came of a stream that was sent one way.

    linger: seconds; messages, stored: those of the stream, and those of the broker that they travelled in
    frames, dictionaries, sockets: bytes; delays: seconds from publishing a message until it was there
    """

    way: str
    linger: float
    messages: int
    stored: int
    frames: int
    dictionaries: int
    sockets: int
    delays: Sequence[float]

    @property
    def joined(self) -> float:
        """Messages of the stream in one of the broker's, on average."""
        return self.messages / self.stored

    @property
    def each(self) -> float:
        """Bytes a message on one hop, its share of dictionaries included."""
        return (self.frames + self.dictionaries) / self.messages

    @property
    def on_sockets(self) -> float:
        return self.sockets / self.messages

    @property
    def delay(self) -> float:
        """Milliseconds, on average."""
        return 1000 * float(np.mean(self.delays))

    @property
    def slowest(self) -> float:
        """Milliseconds that 99 % of the messages do not exceed."""
        return 1000 * float(np.quantile(self.delays, 0.99))


def plans(batches: Sequence[int], rate: float) -> list[tuple[str, float]]:
    """Ways and lingers: about so many messages are deflated together; a dictionary without a linger, and with one.

    >>> plans([1, 5], rate=400.0)
    [('dictionary', 0.0), ('dictionary', 0.05), ('deflate', 0.0), ('deflate', 0.01)]
    """
    dictionaries = [("dictionary", (batch - 1) / rate) for batch in (1, TYPICAL)]
    return dictionaries + [("deflate", (batch - 1) / rate) for batch in batches]


async def courses(
    messages: Sequence[bytes],
    batches: Sequence[int] = BATCHES,
    rate: float = RATE,
    progress: Callable[[float], None] = lambda share: None,
) -> list[StreamRun]:
    """All of them at one broker, one after the other; raises GuaranteeViolated where a message is not as published."""
    found: list[StreamRun] = []
    planned = plans(batches, rate)
    async with tw.connect("embedded://") as home:
        for number, (way, linger) in enumerate(planned):
            found.append(await _course(home.broker, f"stream{number}", way, linger, messages, rate))
            progress(len(found) / len(planned))
    return found


@dataclass(frozen=True)
class Balance:
    """Where deflating what is joined does as well as a dictionary without a linger.

    joined: messages, None where as many were never joined; later: milliseconds by which messages then come later
    on_sockets: messages where bytes on the sockets are compared
    """

    joined: float | None
    later: float | None
    on_sockets: float | None

    def __str__(self) -> str:
        """
        >>> print(Balance(12.34, 15.0, 1.62))
        deflate equals a dictionary at 12.3 messages joined, which come 15 ms later; on the sockets at 1.6
        """
        later = f", which come {self.later:.0f} ms later" if self.later is not None else ""
        text = f"deflate equals a dictionary at {shown(self.joined)} messages joined{later}"
        return f"{text}; on the sockets at {shown(self.on_sockets)}"


def balance(found: Sequence[StreamRun]) -> Balance:
    """Of courses one way and the other."""
    alone = next(course for course in found if course.way == "dictionary")
    deflated = sorted((course for course in found if course.way == "deflate"), key=lambda course: course.joined)
    joined = equal_at([(course.joined, course.each) for course in deflated], alone.each)
    on_sockets = equal_at([(course.joined, course.on_sockets) for course in deflated], alone.on_sockets)
    if joined is None:
        return Balance(None, None, on_sockets)
    return Balance(joined, between([(c.joined, c.delay) for c in deflated], joined) - alone.delay, on_sockets)


async def _course(
    broker: Broker, topic: str, way: str, linger: float, messages: Sequence[bytes], rate: float
) -> StreamRun:
    async with (
        Proxy(LOOPBACK, urlsplit(broker.url).port or 0) as wire,
        WAYS[way](f"nats://{LOOPBACK}:{wire.port}", topic, linger) as line,
    ):
        before = wire.to_broker + wire.from_broker
        delays = await sent(line, messages, rate)
        sockets = wire.to_broker + wire.from_broker - before
        dictionaries = line.dictionary_bytes()
    weight = await weigh(broker, line.log)
    return StreamRun(way, linger, len(messages), weight.messages, weight.size, dictionaries, sockets, delays)


async def sent(line: Line, messages: Sequence[bytes], rate: float) -> list[float]:
    """The delays of all messages, every one of which must come as it was, in its place."""
    begun: list[float] = []
    async with asyncio.timeout(len(messages) / rate + PATIENCE), asyncio.TaskGroup() as group:
        receiving = group.create_task(_receive(line, messages))
        group.create_task(_publish(line, messages, rate, begun))
    return [came - left for left, came in zip(begun, receiving.result(), strict=True)]


async def _publish(line: Line, messages: Sequence[bytes], rate: float, begun: list[float]) -> None:
    start = perf_counter()
    for number, message in enumerate(messages):
        await asyncio.sleep(max(0.0, start + number / rate - perf_counter()))
        begun.append(perf_counter())
        await line.publish(message)
    await line.flush()


async def _receive(line: Line, messages: Sequence[bytes]) -> list[float]:
    came: list[float] = []
    async with aclosing(line.arriving) as arriving:
        async for some in arriving:
            expected = messages[len(came) : len(came) + len(some)]
            if list(some) != list(expected):
                raise GuaranteeViolated("messages came otherwise than they were published", place=len(came))
            came += [perf_counter()] * len(some)
            if len(came) == len(messages):
                break
    return came
