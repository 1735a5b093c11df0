"""What a publisher has told in its earlier lives, as far back as the log reaches."""

from __future__ import annotations

from typing import Any

from thinwire.brokers.protocol_broker import Broker
from thinwire.client.publisher_identity import incarnation_of
from thinwire.codec import Subscriber
from thinwire.schema import Event
from thinwire.topics.log_decoder_inlet import Inlet
from thinwire.topics.log_seek_seeking import rewind
from thinwire.topics.names import key_subject, log_of
from thinwire.topics.topic import Topic

MAX_LIVES = 64
"""lives to look back on; one that died while it started has told nothing"""


async def what_was_told(broker: Broker, view: Topic, publisher: str) -> dict[tuple[Any, ...], Event]:
    """For each source the last event that the log has of this publisher."""
    topic = view.name
    told: dict[tuple[Any, ...], Event] = {}
    place = (await broker.span(log_of(topic))).last + 1
    for _ in range(MAX_LIVES):
        inlet = Inlet(view.lookup, dictionaries=view.dictionary, whole=False)
        inlet = await rewind(broker, topic, place, inlet, learn=view.learn, publisher=publisher)
        link = inlet.links.get(publisher)
        if link is None or link.incarnation is None:
            break
        told = {event.source: event for event in await _joined(view, link)} | told
        place = await _beginning(broker, topic, publisher, link.incarnation, place)
    return told


async def _joined(view: Topic, link: Subscriber) -> list[Event]:
    """Where every source stands, with its static facts."""
    assert link.replica is not None
    factoring = view.factoring_of(link.replica.fingerprint)
    events = link.present()
    return events if factoring is None else [await view.join_facts(factoring, event) for event in events]


async def _beginning(broker: Broker, topic: str, publisher: str, incarnation: int, place: int) -> int:
    """Where a life begins: the offset of its first round of key frames."""
    while True:
        key = await broker.last(log_of(topic), key_subject(topic, publisher), up_to=place - 1)
        if key is None or incarnation_of(key) < incarnation:
            return place
        place = key.offset
