"""Two ways to make a stream of messages smaller, over a real broker: join and deflate them, or share a dictionary.

A paced stream of messages is sent with longer and longer lingers. A publisher of thinwire joins the frames of a linger
into one message of the broker and packs each frame by itself, so that each can be read alone. `open_deflated` deflates
all messages of a linger together.

The messages of the log are counted as the broker stores them (headers, key frames and heartbeats included), and with a
dictionary all bytes of dictionaries that the publisher received: this is what one hop carries. Bytes on the sockets of
both ends are counted, too.
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
from thinwire import Subscription
from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.protocol import Broker, LogReader
from thinwire.brokers.proxy import Proxy
from thinwire.dictionaries.codecs import Deflate
from thinwire.errors import GuaranteeViolated
from thinwire.schema.schema import PAYLOAD
from thinwire.topics.names import log_of
from thinwire.wire import varint
from thinwire_lab.live.json_stack import BatchSender
from thinwire_lab.reproduce.dictionaries.byte_account import BATCHES
from thinwire_lab.reproduce.dictionaries.policy_cells import crossing_batch, format_batch, interpolate

TIMEOUT = 60.0
"""seconds in which a stored message must arrive"""


class LogBytes(NamedTuple):
    """Number of messages of a log, their bytes, and the bytes that the broker stores for them."""

    messages: int
    size: int
    stored: int


async def measure_log(broker: Broker, log: str) -> LogBytes:
    """Read a log from its first message to its present last one and return its size."""
    span = await broker.span(log)
    reader = await broker.read(log, first=span.first)
    messages = size = offset = 0
    try:
        while offset < span.last and (stored := await reader.next(TIMEOUT)) is not None:
            messages += 1
            size += len(stored.payload)
            offset = stored.offset
            reader.done(offset)
    finally:
        await reader.close()
    return LogBytes(messages, size, span.stored_bytes)


MAX_JOINED = 1 << 20
"""bytes of a message, and of all that are joined"""


@dataclass(frozen=True)
class BatchStream:
    """A publisher and a subscriber of one topic.

    deliveries: received messages, as many together as arrive together
    log: the log of the topic at the broker
    dictionary_bytes: returns the bytes of dictionaries, and of notices of them, that the publisher has received
    """

    publish: Callable[[bytes], Awaitable[None]]
    flush: Callable[[], Awaitable[None]]
    deliveries: AsyncGenerator[Sequence[bytes], None]
    log: str
    dictionary_bytes: Callable[[], int] = lambda: 0


Method = Callable[[str, str, float], AbstractAsyncContextManager[BatchStream]]


@asynccontextmanager
async def open_deflated(url: str, topic: str, linger: float) -> AsyncIterator[BatchStream]:
    """Deflate all messages of a linger as one: the usual method without dictionaries."""
    log, subject = f"joined_{topic}", f"joined.{topic}"
    async with AsyncExitStack() as resources:
        sending, receiving = await _connect(resources, url), await _connect(resources, url)
        await sending.ensure_log(log, [subject])
        reader = await receiving.read(log)
        resources.push_async_callback(reader.close)
        sender = BatchSender(sending, log, subject, linger, join_messages)
        resources.push_async_callback(sender.close)
        yield BatchStream(lambda message: sender.publish([message]), sender.flush, _read_joined(reader), log)


@asynccontextmanager
async def open_packed(url: str, topic: str, linger: float) -> AsyncIterator[BatchStream]:
    """Make every message a frame packed with a dictionary of the trainer; frames of a linger are joined."""
    async with (
        tw.connect(url) as publishing,
        tw.connect(url) as subscribing,
        publishing.publisher(topic, linger=linger, dictionaries=True) as publisher,
        subscribing.subscribe(topic) as events,
    ):
        yield BatchStream(
            publisher.publish, publisher.flush, _payloads(events), log_of(topic), lambda: publisher.dictionary_bytes
        )


METHODS: dict[str, Method] = {"deflate": open_deflated, "dictionary": open_packed}


def join_messages(messages: Sequence[bytes]) -> bytes:
    """Return several messages as one; `split_messages` is the reverse.

    >>> split_messages(join_messages([b"on", b"", b"off"]))
    [b'on', b'', b'off']
    """
    return Deflate().pack(b"".join(map(varint.write_blob, messages)))


def split_messages(payload: bytes) -> list[bytes]:
    """Return the messages that `join_messages` joined."""
    plain = Deflate().unpack(payload, MAX_JOINED)
    messages, position = [], 0
    while position < len(plain):
        message, position = varint.read_blob(plain, position, MAX_JOINED)
        messages.append(message)
    return messages


async def _read_joined(reader: LogReader) -> AsyncGenerator[list[bytes], None]:
    while True:
        stored = await reader.next()
        if stored is not None:
            yield split_messages(stored.payload)
            reader.done(stored.offset)


async def _payloads(events: Subscription) -> AsyncGenerator[list[bytes], None]:
    async for batch in events.batches():
        yield [event[PAYLOAD] for event in batch]


async def _connect(resources: AsyncExitStack, url: str) -> Broker:
    from thinwire.brokers.nats.broker import connect

    broker = await connect(url)
    resources.push_async_callback(broker.close)
    return broker


RATE = 400.0
"""messages per second: each one arrives before the next one is due, so without a linger none are joined"""
MESSAGES, QUICK_MESSAGES = 10_000, 400
QUICK_BATCHES = (1, 5, 21)
TYPICAL_BATCH = 21
"""messages that are joined in the run with a dictionary and a linger"""


@dataclass(frozen=True)
class StreamRun:
    """The result of a stream that was sent with one method.

    linger: seconds; messages, stored: messages of the stream, and those of the broker that contained them
    frames, dictionaries, sockets: bytes; delays: seconds from publishing a message to its arrival
    """

    method: str
    linger: float
    messages: int
    stored: int
    frames: int
    dictionaries: int
    sockets: int
    delays: Sequence[float]

    @property
    def joined(self) -> float:
        """Messages of the stream in one of the broker, on average."""
        return self.messages / self.stored

    @property
    def each(self) -> float:
        """Bytes per message on one hop, including dictionaries."""
        return (self.frames + self.dictionaries) / self.messages

    @property
    def on_sockets(self) -> float:
        return self.sockets / self.messages

    @property
    def delay(self) -> float:
        """Mean delay in milliseconds."""
        return 1000 * float(np.mean(self.delays))

    @property
    def slowest(self) -> float:
        """Milliseconds that 99 % of the messages do not exceed."""
        return 1000 * float(np.quantile(self.delays, 0.99))


def plan_runs(batches: Sequence[int], rate: float) -> list[tuple[str, float]]:
    """Return methods and lingers: a dictionary without and with a linger, and deflate for each size of batch.

    >>> plan_runs([1, 5], rate=400.0)
    [('dictionary', 0.0), ('dictionary', 0.05), ('deflate', 0.0), ('deflate', 0.01)]
    """
    dictionaries = [("dictionary", (batch - 1) / rate) for batch in (1, TYPICAL_BATCH)]
    return dictionaries + [("deflate", (batch - 1) / rate) for batch in batches]


async def run_methods(
    messages: Sequence[bytes],
    batches: Sequence[int] = BATCHES,
    rate: float = RATE,
    progress: Callable[[float], None] = lambda share: None,
) -> list[StreamRun]:
    """Send the stream with all methods over one broker, one after the other.

    `GuaranteeViolated` is raised if a message does not arrive as published.
    """
    runs: list[StreamRun] = []
    planned = plan_runs(batches, rate)
    async with tw.connect("embedded://") as home:
        for number, (method, linger) in enumerate(planned):
            runs.append(await _run_method(home.broker, f"stream{number}", method, linger, messages, rate))
            progress(len(runs) / len(planned))
    return runs


@dataclass(frozen=True)
class BreakEven:
    """The batch size from which deflate needs as few bytes as a dictionary without a linger.

    joined: messages, None if no batch was large enough; later: milliseconds by which messages then arrive later
    on_sockets: messages, by the bytes on the sockets
    """

    joined: float | None
    later: float | None
    on_sockets: float | None

    def __str__(self) -> str:
        """
        >>> print(BreakEven(12.34, 15.0, 1.62))
        deflate equals a dictionary at 12.3 messages joined, which arrive 15 ms later; on the sockets at 1.6
        """
        later = f", which arrive {self.later:.0f} ms later" if self.later is not None else ""
        text = f"deflate equals a dictionary at {format_batch(self.joined)} messages joined{later}"
        return f"{text}; on the sockets at {format_batch(self.on_sockets)}"


def find_break_even(runs: Sequence[StreamRun]) -> BreakEven:
    """Compare the runs of both methods."""
    alone = next(run for run in runs if run.method == "dictionary")
    deflated = sorted((run for run in runs if run.method == "deflate"), key=lambda run: run.joined)
    joined = crossing_batch([(run.joined, run.each) for run in deflated], alone.each)
    on_sockets = crossing_batch([(run.joined, run.on_sockets) for run in deflated], alone.on_sockets)
    if joined is None:
        return BreakEven(None, None, on_sockets)
    return BreakEven(
        joined, interpolate([(run.joined, run.delay) for run in deflated], joined) - alone.delay, on_sockets
    )


async def _run_method(
    broker: Broker, topic: str, method: str, linger: float, messages: Sequence[bytes], rate: float
) -> StreamRun:
    async with (
        Proxy(LOOPBACK, urlsplit(broker.url).port or 0) as proxy,
        METHODS[method](f"nats://{LOOPBACK}:{proxy.port}", topic, linger) as stream,
    ):
        before = proxy.to_broker + proxy.from_broker
        delays = await send_all(stream, messages, rate)
        sockets = proxy.to_broker + proxy.from_broker - before
        dictionaries = stream.dictionary_bytes()
    log = await measure_log(broker, stream.log)
    return StreamRun(method, linger, len(messages), log.messages, log.size, dictionaries, sockets, delays)


async def send_all(stream: BatchStream, messages: Sequence[bytes], rate: float) -> list[float]:
    """Publish the messages at a rate and return their delays. Each must arrive unchanged and in order."""
    published: list[float] = []
    async with asyncio.timeout(len(messages) / rate + TIMEOUT), asyncio.TaskGroup() as group:
        receiving = group.create_task(_receive(stream, messages))
        group.create_task(_publish(stream, messages, rate, published))
    return [arrived - sent for sent, arrived in zip(published, receiving.result(), strict=True)]


async def _publish(stream: BatchStream, messages: Sequence[bytes], rate: float, published: list[float]) -> None:
    start = perf_counter()
    for number, message in enumerate(messages):
        await asyncio.sleep(max(0.0, start + number / rate - perf_counter()))
        published.append(perf_counter())
        await stream.publish(message)
    await stream.flush()


async def _receive(stream: BatchStream, messages: Sequence[bytes]) -> list[float]:
    arrived: list[float] = []
    async with aclosing(stream.deliveries) as deliveries:
        async for batch in deliveries:
            expected = messages[len(arrived) : len(arrived) + len(batch)]
            if list(batch) != list(expected):
                raise GuaranteeViolated("messages differ from those published", position=len(arrived))
            arrived += [perf_counter()] * len(batch)
            if len(arrived) == len(messages):
                break
    return arrived
