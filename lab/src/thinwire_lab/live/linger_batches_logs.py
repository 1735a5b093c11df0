"""What a log weighs at the broker, message by message."""

from __future__ import annotations

from typing import NamedTuple

from thinwire.brokers.protocol_broker import Broker

PATIENCE = 60.0
"""seconds for a message that is stored to come"""


class Weight(NamedTuple):
    """The messages of a log, their bytes, and what the broker stores for them."""

    messages: int
    size: int
    stored: int


async def weigh(broker: Broker, log: str) -> Weight:
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
    return Weight(messages, size, span.stored_bytes)
