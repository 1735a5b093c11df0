"""A publisher's name on a topic: one who starts asks whether it is taken, and finds out what was said under it.

What a publisher has told in its earlier lives, as far back as the log reaches.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker, Stored
from thinwire.codec import StreamDecoder
from thinwire.errors import IdentityTaken, NobodyAnswers, PeerFault
from thinwire.schema import Event
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.log_seek import seek_decoders
from thinwire.topics.names import ask_subject, key_subject, log_of, publisher_subjects
from thinwire.topics.topic import TopicMetadata
from thinwire.wire import place_in_round

CLAIM = b"claim"
"""asks whether somebody alive has the name; who has it answers alike"""
PATIENCE = 1.0
"""seconds after which one that does not answer counts as dead: it is refused if it wakes and writes"""


class LastMessage(NamedTuple):
    """The offset of the last message under a name, and the last life that spoke; zeros where nobody did."""

    offset: int
    incarnation: int


async def claim(broker: Broker, topic: str, name: str) -> LastMessage:
    """Take a name; `IdentityTaken` if somebody alive has it."""
    with suppress(NobodyAnswers):
        if await broker.request(ask_subject(topic, name), CLAIM, timeout=PATIENCE) == CLAIM:
            raise IdentityTaken("a live publisher answers to it", topic=topic, name=name)
    log = log_of(topic)
    newest = await broker.last(log, publisher_subjects(topic, name))
    key = await broker.last(log, key_subject(topic, name))
    return LastMessage(newest.offset if newest is not None else 0, incarnation_of(key) if key is not None else 0)


def incarnation_of(key: Stored) -> int:
    """The life that a round of key frames belongs to; 0 where it cannot be read."""
    try:
        place = place_in_round(key.payload)
    except PeerFault:
        return 0
    return place.incarnation if place is not None else 0


MAX_LIVES = 64
"""lives to look back on; one that died while it started has told nothing"""


async def read_last_events(broker: Broker, view: TopicMetadata, publisher: str) -> dict[tuple[Any, ...], Event]:
    """For each source the last event that the log has of this publisher."""
    topic = view.name
    told: dict[tuple[Any, ...], Event] = {}
    place = (await broker.span(log_of(topic))).last + 1
    for _ in range(MAX_LIVES):
        log_decoder = LogDecoder(view.lookup, dictionaries=view.dictionary, whole=False)
        log_decoder = await seek_decoders(broker, topic, place, log_decoder, learn=view.learn, publisher=publisher)
        link = log_decoder.links.get(publisher)
        if link is None or link.incarnation is None:
            break
        told = {event.source: event for event in await _joined(view, link)} | told
        place = await _beginning(broker, topic, publisher, link.incarnation, place)
    return told


async def _joined(view: TopicMetadata, link: StreamDecoder) -> list[Event]:
    """Where every source stands, with its static facts."""
    assert link.decoder_state is not None
    factoring = view.factoring_of(link.decoder_state.fingerprint)
    events = link.present()
    return events if factoring is None else [await view.join_facts(factoring, event) for event in events]


async def _beginning(broker: Broker, topic: str, publisher: str, incarnation: int, place: int) -> int:
    """Where a life begins: the offset of its first round of key frames."""
    while True:
        key = await broker.last(log_of(topic), key_subject(topic, publisher), up_to=place - 1)
        if key is None or incarnation_of(key) < incarnation:
            return place
        place = key.offset
