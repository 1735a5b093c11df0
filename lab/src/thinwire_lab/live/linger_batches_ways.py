"""Two ways to make a stream of messages smaller, each over a real broker: join and deflate them, or share a dictionary.

A publisher of thinwire joins what it says during a linger into one message of the broker, and packs every frame of it
by itself, so that readers need no other frame to read it. To deflate what was joined as a whole is left to `joined`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import thinwire as tw
from thinwire.brokers.protocol_broker import Broker, LogReader
from thinwire.client import Subscription
from thinwire.dictionaries.codecs import Deflate
from thinwire.schema.schema_payloads import PAYLOAD
from thinwire.topics.names import log_of
from thinwire.wire import varint
from thinwire_lab.live.json_stack import BatchSender

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
