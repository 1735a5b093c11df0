"""What a publisher has told in its earlier lives, as far back as the log reaches."""

from __future__ import annotations

from typing import Any

from thinwire.client.inlet import Inlet, Lookup
from thinwire.client.seeking import rewind
from thinwire.control.names import key_subject, log_of
from thinwire.errors import PeerFault
from thinwire.events import Event
from thinwire.frames import place_in_round
from thinwire.transports.broker import Broker, Stored

MAX_LIVES = 64
"""lives to look back on; one that died while it started has told nothing"""


async def what_was_told(broker: Broker, topic: str, publisher: str, lookup: Lookup) -> dict[tuple[Any, ...], Event]:
    """For each source the last event that the log has of this publisher."""
    told: dict[tuple[Any, ...], Event] = {}
    place = (await broker.span(log_of(topic))).last + 1
    for _ in range(MAX_LIVES):
        inlet = await rewind(broker, topic, place, Inlet(lookup, whole=False), publisher=publisher)
        link = inlet.links.get(publisher)
        if link is None or link.incarnation is None:
            break
        told = {event.source: event for event in link.present()} | told
        place = await _beginning(broker, topic, publisher, link.incarnation, place)
    return told


async def _beginning(broker: Broker, topic: str, publisher: str, incarnation: int, place: int) -> int:
    """Where a life begins: the offset of its first round of key frames."""
    while True:
        key = await broker.last(log_of(topic), key_subject(topic, publisher), up_to=place - 1)
        if key is None or _incarnation(key) < incarnation:
            return place
        place = key.offset


def _incarnation(key: Stored) -> int:
    try:
        place = place_in_round(key.payload)
    except PeerFault:
        return 0
    return place.incarnation if place is not None else 0
