"""How the classes of a topic are served, seen from outside: the documents, and what its translator says of itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from thinwire.brokers.protocol_broker import Broker
from thinwire.errors import NobodyAnswers, ThinwireError
from thinwire.topics.channel_documents import ChannelDocument, channel_documents
from thinwire.topics.names import CHANNELS, translator_subject

PATIENCE = 60.0
_POLL = 0.05


class NotServed(ThinwireError):
    summary = "the classes of a topic are not served as they should be"
    advice = "Does a translator run, and does it see the subscriptions?"


async def channels_open(url: str, topic: str, classes: int) -> dict[str, ChannelDocument]:
    """Wait until so many classes are served: the strictest by the log, each of the others by a channel."""
    from thinwire.brokers.nats.broker import connect

    broker = await connect(url)
    try:
        return await wait_for_channels(broker, topic, classes)
    finally:
        await broker.close()


async def wait_for_channels(broker: Broker, topic: str, classes: int) -> dict[str, ChannelDocument]:
    """The same on a connection that is there."""
    bucket = await broker.bucket(CHANNELS)
    found: dict[str, ChannelDocument] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while sum(document.state == "open" for document in found.values()) < classes - 1:
                await asyncio.sleep(_POLL)
                found = await channel_documents(bucket, topic)
    except TimeoutError:
        states = {name: document.state for name, document in found.items()}
        raise NotServed(topic=topic, wanted=classes, found=states) from None
    return found


async def translator_of(broker: Broker, topic: str) -> dict[str, Any]:
    """What the translator of a topic says of itself; waits until there is one."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer: dict[str, Any] = json.loads(await broker.request(translator_subject(topic), b""))
                    return answer
                except NobodyAnswers:
                    await asyncio.sleep(_POLL)
    except TimeoutError:
        raise NotServed("no translator answers", topic=topic) from None
