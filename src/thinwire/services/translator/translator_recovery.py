"""Restores the translation of a topic from the broker.

The last message of every channel contains the log position that it covers. The decoders are brought to the first
message that some channel does not cover: from the nearest checkpoint, or from key frames if they are nearer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from thinwire.brokers.protocol import Broker, Span, StoredMessage
from thinwire.codec import State
from thinwire.errors import PeerFault
from thinwire.services.translator.channel_plan import ServingDecision
from thinwire.services.translator.channel_writer import ChannelWriter
from thinwire.services.translator.translation import Translation
from thinwire.topics.blob_store import PIECE_SIZE
from thinwire.topics.channel_documents import ChannelDocument, ChannelStore
from thinwire.topics.checkpoint_store import CheckpointStore
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.leases import Lease
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.log_selection import LogSelection, PublisherOffsets, gather_limited
from thinwire.topics.names import (
    CHANNELS,
    CHECKPOINTS,
    REGISTRY,
    channel_key_subject,
    channel_log_of,
    channel_subjects,
    class_in,
    log_of,
    publisher_in,
)
from thinwire.topics.position import Position, decode_envelope
from thinwire.topics.seeker import Seeker, SeekResult, find_round_start
from thinwire.topics.topic_metadata import TopicMetadata

MAX_SEEK = 65_536
"""messages that are read for new classes; beyond that key frames are requested from the publishers"""
MAX_STALE_MESSAGES = 256
"""messages of a former translator at the end of a channel that are skipped, at most"""
MAX_STALE_ROUNDS = 4
"""key frame rounds of a former translator that are skipped, at most"""

_log = logging.getLogger("thinwire.translator")


class ChannelEnd(NamedTuple):
    """The end of a channel.

    offset: of its last message
    epoch, position: of its last message that is not from a former translator; position is None if it is unreadable
    """

    offset: int
    epoch: int
    position: Position | None


ChannelEnds = Mapping[str, Mapping[str, ChannelEnd]]
"""by class and publisher"""


async def find_channel_ends(
    broker: Broker, topic: str, classes: Collection[str], epochs: Mapping[str, int] | None = None
) -> dict[str, dict[str, ChannelEnd]]:
    """Return the end of each channel by class and publisher; a class without messages has no entry for a publisher.

    epochs: the epoch in each class's document
    """
    log = channel_log_of(topic)
    pattern = channel_subjects(topic, next(iter(classes))) if len(classes) == 1 else channel_subjects(topic)
    subjects = await broker.subjects(log, pattern) if classes else {}
    channels = sorted({(class_in(one), publisher_in(one)) for one in subjects if class_in(one) in classes})

    async def find_end(channel: tuple[str, str]) -> ChannelEnd | None:
        return await _find_end(broker, topic, *channel, (epochs or {}).get(channel[0], 0))

    ends: dict[str, dict[str, ChannelEnd]] = {name: {} for name in classes}
    for (class_id, publisher), end in zip(channels, await gather_limited(find_end, channels), strict=True):
        if end is not None:
            ends[class_id][publisher] = end
    return ends


async def _find_end(broker: Broker, topic: str, class_id: str, publisher: str, epoch: int) -> ChannelEnd | None:
    """Return the end of a channel without the messages that a former translator wrote after its successor.

    epoch: the epoch in the document of the class. A former translator may have written key frame rounds with an older
        epoch; the rounds before them are read until one is not older
    """
    log, subjects = channel_log_of(topic), channel_subjects(topic, class_id, publisher)
    newest = await broker.last(log, subjects)
    if newest is None:
        return None
    round_epoch = 0
    before: int | None = None
    for _ in range(1 + MAX_STALE_ROUNDS):
        key = await broker.last(log, channel_key_subject(topic, class_id, publisher), up_to=before)
        if key is None:
            break
        round_epoch, before = max(round_epoch, _read_end(key).epoch), key.offset - 1
        if round_epoch >= epoch:
            break
    valid: StoredMessage | None = newest
    for _ in range(MAX_STALE_MESSAGES):
        if valid is None or _read_end(valid).epoch >= round_epoch:
            break
        valid = await broker.last(log, subjects, up_to=valid.offset - 1)
    return _read_end(valid or newest)._replace(offset=newest.offset)


def _read_end(stored: StoredMessage) -> ChannelEnd:
    try:
        epoch, position, _ = decode_envelope(stored.payload)
    except PeerFault as fault:
        _log.warning("unreadable message at the end of %s: %s", stored.subject, fault)
        return ChannelEnd(stored.offset, 0, None)
    return ChannelEnd(stored.offset, epoch, position)


def find_first_uncovered(
    ends: ChannelEnds, documents: Mapping[str, ChannelDocument], publishers: PublisherOffsets, next_offset: int
) -> int:
    """Return the offset of the first log message that some channel does not cover.

    For a publisher without a channel, which started just before the takeover, it is the start of its last key frame
    round, if that is after the start of the class.
    """
    first = next_offset
    for class_id, by_publisher in ends.items():
        since = documents[class_id].since if class_id in documents else next_offset
        for publisher, newest in publishers.newest.items():
            end = by_publisher.get(publisher)
            key = publishers.round_starts.get(publisher, 0)
            if end is not None and end.position is not None:
                first = min(first, end.position.offset + 1) if newest > end.position.offset else first
            elif key > since:
                first = min(first, key)
    return first


async def restore_decoders(
    broker: Broker, metadata: TopicMetadata, log_decoder: LogDecoder, first: int, *, limit: int | None = None
) -> SeekResult[LogDecoder]:
    """Bring new decoders to an offset; to an earlier one if a key frame round of several messages is in progress there.

    Channels that resume inside the round need the decoder state before it. The translation continues after
    `log_decoder.offset` of the result.

    limit: messages to read at most if no channel resumes; decoders stay empty if more were needed
    """
    seeker = Seeker(broker, LogSelection(metadata.name), metadata.fetch_definition)
    while True:
        found = await seeker.seek(log_decoder, first, max_messages=limit)
        partial = [name for name, decoder in found.log_decoder.decoders.items() if decoder.state is State.PARTIAL]
        round_start = await find_round_start(broker, seeker.selection, partial, first) if limit is None else first
        if round_start == first:
            return found
        first = round_start


class ResumedTranslation(NamedTuple):
    """A translation that is ready to read the log from `first`; `classes` are those whose channels resume."""

    metadata: TopicMetadata
    documents: ChannelStore
    checkpoints: CheckpointStore
    translation: Translation
    writer: ChannelWriter
    first: int
    classes: Mapping[str, DemandClass]


async def resume(broker: Broker, lease: Lease, decisions: Mapping[str, ServingDecision]) -> ResumedTranslation:
    """Restore the translation of a topic. Raises `UnknownLog` if the topic has no log."""
    topic = lease.topic
    started = asyncio.get_running_loop().time()
    metadata = await TopicMetadata.find(broker, await broker.bucket(REGISTRY), topic)
    span = await broker.span(log_of(topic))
    documents, checkpoints = ChannelStore(await broker.bucket(CHANNELS), topic), await _open_checkpoints(broker)
    await documents.load()
    if await _is_log_replaced(documents, checkpoints, span):
        _log.warning("log of topic %s was replaced; starting new channels", topic)
        await delete_channels(broker, topic, lease.epoch)
        await documents.load()
    await broker.ensure_log(channel_log_of(topic), [channel_subjects(topic)])
    open_before = {name for name, document in documents.by_class.items() if document.state == "open"}
    classes = {name: decisions[name].demand for name in open_before & decisions.keys()}
    epochs = {name: document.epoch for name, document in documents.by_class.items()}
    ends = await find_channel_ends(broker, topic, classes.keys(), epochs)
    await _advance_epoch(lease, documents, ends)
    publishers = await PublisherOffsets.find(broker, topic)
    first = max(find_first_uncovered(ends, documents.by_class, publishers, span.last + 1), span.first)
    restored = await restore_decoders(
        broker,
        metadata,
        LogDecoder(metadata.lookup, dictionaries=metadata.dictionary),
        first,
        limit=None if classes else MAX_SEEK,
    )
    first = (restored.log_decoder.offset or 0) + 1
    translation = Translation(topic, metadata.lookup, epoch=lease.epoch, log_decoder=restored.log_decoder)
    writer = ChannelWriter(broker, topic)
    for name, demand in classes.items():
        writer.set_last_offsets(name, {publisher: end.offset for publisher, end in ends[name].items()})
        positions = {publisher: end.position for publisher, end in ends[name].items() if end.position is not None}
        translation.open(demand, positions)
    _log.info(
        "translating topic %s: epoch %d, %d classes resumed at offset %d of %d, decoders %s, %.3f s",
        *(topic, lease.epoch, len(classes), first, span.last, restored.start_text),
        asyncio.get_running_loop().time() - started,
    )
    return ResumedTranslation(metadata, documents, checkpoints, translation, writer, first, classes)


async def delete_channels(broker: Broker, topic: str, epoch: int) -> None:
    """Delete the channel documents, the channel log and the checkpoints of a topic."""
    documents = ChannelStore(await broker.bucket(CHANNELS), topic)
    await documents.load()
    for name in list(documents.by_class):
        await documents.delete(name, epoch)
    await broker.delete_log(channel_log_of(topic))
    await (await _open_checkpoints(broker)).delete(topic)


async def _open_checkpoints(broker: Broker) -> CheckpointStore:
    piece = min(PIECE_SIZE, broker.max_payload // 2)
    return CheckpointStore(await broker.bucket(CHECKPOINTS), piece_size=piece)


async def _is_log_replaced(documents: ChannelStore, checkpoints: CheckpointStore, span: Span) -> bool:
    """Report whether the log was deleted and created again.

    Channels or checkpoints then refer to offsets after its end.
    """
    offsets = [document.since for document in documents.by_class.values()]
    offsets += [checkpoint.offset for checkpoint in await checkpoints.read_all(documents.topic)]
    return max(offsets, default=0) > span.last


async def _advance_epoch(lease: Lease, documents: ChannelStore, ends: ChannelEnds) -> None:
    """Make the epoch larger than those of channels and documents. After a loss of the lease bucket it is smaller."""
    known = [document.epoch for document in documents.by_class.values()]
    known += [end.epoch for by_publisher in ends.values() for end in by_publisher.values()]
    if max(known, default=0) >= lease.epoch:
        await lease.advance(max(known) + 1)
