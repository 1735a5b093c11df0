"""Batches instead of dictionaries, live: a paced stream of messages, joined for longer and longer lingers.

What is counted are the messages of the log as the broker keeps them (headers, key frames and heartbeats included) and,
with a dictionary, everything of dictionaries that came to the publisher: that is what one hop carries. Bytes on the
sockets are counted beside it, in both directions and for both ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from time import perf_counter
from urllib.parse import urlsplit

import numpy as np

import thinwire as tw
from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.protocol_broker import Broker
from thinwire.brokers.proxy import Proxy
from thinwire.dictionaries.byte_account import BATCHES
from thinwire.errors import BrokenPromise
from thinwire_lab.live.linger_batches_logs import weigh
from thinwire_lab.live.linger_batches_ways import WAYS, Line
from thinwire_lab.reproduce.dictionaries.policy_cells import between, equal_at, shown

RATE = 400.0
"""messages a second: one has arrived before the next is due, so that without a linger each travels alone"""
MESSAGES, FEW = 10_000, 400
"""of a stream, sent each way: in full, and where time presses"""
QUICK_BATCHES = (1, 5, 21)
TYPICAL = 21
"""messages that are joined where frames with a dictionary are joined too"""
PATIENCE = 60.0
"""seconds that a course may take longer than its messages"""


@dataclass(frozen=True)
class Course:
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
) -> list[Course]:
    """All of them at one broker, one after the other; raises BrokenPromise where a message is not as published."""
    found: list[Course] = []
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


def balance(found: Sequence[Course]) -> Balance:
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
) -> Course:
    async with (
        Proxy(LOOPBACK, urlsplit(broker.url).port or 0) as wire,
        WAYS[way](f"nats://{LOOPBACK}:{wire.port}", topic, linger) as line,
    ):
        before = wire.to_broker + wire.from_broker
        delays = await sent(line, messages, rate)
        sockets = wire.to_broker + wire.from_broker - before
        dictionaries = line.dictionary_bytes()
    weight = await weigh(broker, line.log)
    return Course(way, linger, len(messages), weight.messages, weight.size, dictionaries, sockets, delays)


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
                raise BrokenPromise("messages came otherwise than they were published", place=len(came))
            came += [perf_counter()] * len(some)
            if len(came) == len(messages):
                break
    return came
