"""The name of a publisher: claiming it, and reading the last events that were published under it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker, StoredMessage
from thinwire.codec import StreamDecoder
from thinwire.errors import NameInUse, PeerFault, ServiceUnavailable
from thinwire.schema import Event
from thinwire.schema.kind_conversion import kind_conversion
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.names import key_subject, log_of, publisher_subjects, request_subject
from thinwire.topics.seeker import Seeker
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.wire import read_key_frame

CLAIM = b"claim"
"""request whether a publisher with this name runs; a running one answers with the same bytes"""
CLAIM_TIMEOUT = 1.0
"""seconds after which a publisher that does not answer counts as stopped; its writes are fenced"""
MAX_INCARNATIONS = 64
"""incarnations that are read to find the last events, because an incarnation can end without an event"""


class LastMessage(NamedTuple):
    """The offset of the last message under a name, and the last incarnation; zeros if there is none."""

    offset: int
    incarnation: int


async def claim(broker: Broker, topic: str, name: str) -> LastMessage:
    """Claim a name. Raises NameInUse if a publisher with this name runs."""
    with suppress(ServiceUnavailable):
        if await broker.request(request_subject(topic, name), CLAIM, timeout=CLAIM_TIMEOUT) == CLAIM:
            raise NameInUse("a running publisher has this name", topic=topic, name=name)
    log = log_of(topic)
    newest = await broker.last(log, publisher_subjects(topic, name))
    key = await broker.last(log, key_subject(topic, name))
    offset, incarnation = newest.offset if newest is not None else 0, read_incarnation(key) if key is not None else 0
    if not incarnation:
        span = await broker.span(log)
        if offset or span.first > 1:
            # The key frame was removed or is damaged. No incarnation number exceeds the offset of its first message, so
            # the last offset is at least as high as all of them. Readers would drop events of a repeated incarnation.
            incarnation = span.last
    return LastMessage(offset, incarnation)


def read_incarnation(key: StoredMessage) -> int:
    """Return the incarnation of a key frame message; 0 if it is invalid."""
    try:
        frame = read_key_frame(key.payload)
    except PeerFault:
        return 0
    return frame.incarnation if frame is not None else 0


async def read_last_events(broker: Broker, topic: TopicMetadata, publisher: str) -> dict[tuple[Any, ...], Event]:
    """Return the last event of each source of a publisher in the log."""
    events: dict[tuple[Any, ...], Event] = {}
    end = (await broker.span(log_of(topic.name))).last + 1
    seeker = Seeker(broker, LogSelection(topic.name), topic.fetch_definition)
    for _ in range(MAX_INCARNATIONS):
        log_decoder = LogDecoder(topic.lookup, dictionaries=topic.dictionary, reads_all=False)
        log_decoder = (await seeker.seek(log_decoder, end, publishers=[publisher])).log_decoder
        decoder = log_decoder.decoders.get(publisher)
        if decoder is None or decoder.incarnation is None:
            break
        events = {event.source: event for event in await _join_facts(topic, decoder)} | events
        end = await _find_start(broker, topic.name, publisher, decoder.incarnation, end)
    kinds = kind_conversion(topic.schema)
    return events if kinds is None else {source: e.like(kinds.from_base(e)) for source, e in events.items()}


async def _join_facts(topic: TopicMetadata, decoder: StreamDecoder) -> list[Event]:
    """Return the current event of every source with its static properties."""
    assert decoder.decoder_state is not None
    factoring = topic.factoring_of(decoder.decoder_state.fingerprint)
    events = decoder.current_events()
    return events if factoring is None else [await topic.join_facts(factoring, event) for event in events]


async def _find_start(broker: Broker, topic: str, publisher: str, incarnation: int, end: int) -> int:
    """Return the offset of the first key frame round of an incarnation."""
    while True:
        key = await broker.last(log_of(topic), key_subject(topic, publisher), up_to=end - 1)
        if key is None or read_incarnation(key) < incarnation:
            return end
        end = key.offset
