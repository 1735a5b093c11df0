"""A publisher's name on a topic: one who starts asks whether it is taken, and finds out what was said under it."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from thinwire.brokers.protocol_broker import Broker, Stored
from thinwire.errors import IdentityTaken, NobodyAnswers, PeerFault
from thinwire.topics.names import ask_subject, key_subject, log_of, publisher_subjects
from thinwire.wire import place_in_round

CLAIM = b"claim"
"""asks whether somebody alive has the name; who has it answers alike"""
PATIENCE = 1.0
"""seconds after which one that does not answer counts as dead: it is refused if it wakes and writes"""


class LastWords(NamedTuple):
    """The offset of the last message under a name, and the last life that spoke; zeros where nobody did."""

    offset: int
    incarnation: int


async def claim(broker: Broker, topic: str, name: str) -> LastWords:
    """Take a name; `IdentityTaken` if somebody alive has it."""
    with suppress(NobodyAnswers):
        if await broker.request(ask_subject(topic, name), CLAIM, timeout=PATIENCE) == CLAIM:
            raise IdentityTaken("a live publisher answers to it", topic=topic, name=name)
    log = log_of(topic)
    newest = await broker.last(log, publisher_subjects(topic, name))
    key = await broker.last(log, key_subject(topic, name))
    return LastWords(newest.offset if newest is not None else 0, incarnation_of(key) if key is not None else 0)


def incarnation_of(key: Stored) -> int:
    """The life that a round of key frames belongs to; 0 where it cannot be read."""
    try:
        place = place_in_round(key.payload)
    except PeerFault:
        return 0
    return place.incarnation if place is not None else 0
