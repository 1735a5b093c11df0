"""Where a translator goes on: after what its channels tell already, with decoders that know what came before.

The last message of every channel says how far it has told. The decoders are brought to the first message that some
channel has not told: from the nearest checkpoint, or from key frames where there is none or key frames are nearer.

The beginning of a topic's translation: everything that its predecessor left, put together again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from thinwire.brokers.protocol import Broker, Span, Stored
from thinwire.codec import State
from thinwire.errors import PeerFault
from thinwire.services.translator.channel_writer import ChannelWriter
from thinwire.services.translator.subscription_groups import ServingDecision
from thinwire.services.translator.translation import Translation
from thinwire.topics.channel_documents import ChannelDocument, ChannelStore
from thinwire.topics.checkpoint_store import PIECE, CheckpointStore
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.leases import Lease
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.log_position import ChannelPosition, LogSelection, Publishers, several, unseal
from thinwire.topics.log_seek import last_keys, seek
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
from thinwire.topics.topic import TopicMetadata

NEARBY = 65_536
"""messages to read for classes that begin now; beyond that publishers are asked for key frames"""
MAX_STALE = 256
"""messages of an earlier epoch to look behind, at most"""
STALE_KEYS = 4
"""rounds of key frames that one who had slept may have written, at most"""


_log = logging.getLogger("thinwire.translator")


class End(NamedTuple):
    """The end of a channel: the offset of its last message, and of the last that counts who wrote it and how far it
    tells; None where nobody can read it."""

    offset: int
    epoch: int
    position: ChannelPosition | None


Ends = Mapping[str, Mapping[str, End]]
"""where channels end, by class and publisher"""


async def channel_ends(
    broker: Broker, topic: str, classes: Collection[str], epochs: Mapping[str, int] | None = None
) -> dict[str, dict[str, End]]:
    """Where the channels of these classes end; a class that was never told anything has none.

    epochs: in which each class was last served, as far as that is known
    """
    log = channel_log_of(topic)
    pattern = channel_subjects(topic, next(iter(classes))) if len(classes) == 1 else channel_subjects(topic)
    subjects = await broker.subjects(log, pattern) if classes else {}
    channels = sorted({(class_in(one), publisher_in(one)) for one in subjects if class_in(one) in classes})

    async def end(channel: tuple[str, str]) -> End | None:
        return await _end(broker, topic, *channel, (epochs or {}).get(channel[0], 0))

    found: dict[str, dict[str, End]] = {name: {} for name in classes}
    for (class_id, publisher), last in zip(channels, await several(end, channels), strict=True):
        if last is not None:
            found[class_id][publisher] = last
    return found


async def _end(broker: Broker, topic: str, class_id: str, publisher: str, epoch: int) -> End | None:
    """Where a channel ends: what one that had slept wrote behind its successor's key frames tells nothing.

    epoch: one that has served the class; where the last key frames are older, those before them are looked at as well,
    for they may have been written by one that had slept
    """
    log, subjects = channel_log_of(topic), channel_subjects(topic, class_id, publisher)
    newest = await broker.last(log, subjects)
    if newest is None:
        return None
    begun = 0
    before: int | None = None
    for _ in range(1 + STALE_KEYS):
        key = await broker.last(log, channel_key_subject(topic, class_id, publisher), up_to=before)
        if key is None:
            break
        begun, before = max(begun, _read(key).epoch), key.offset - 1
        if begun >= epoch:
            break
    told: Stored | None = newest
    for _ in range(MAX_STALE):
        if told is None or _read(told).epoch >= begun:
            break
        told = await broker.last(log, subjects, up_to=told.offset - 1)
    return _read(told or newest)._replace(offset=newest.offset)


def find_first_unsent(
    ends: Ends, documents: Mapping[str, ChannelDocument], publishers: Publishers, after_last: int
) -> int:
    """The offset of the first message that some channel has not told, as far as that can be known from outside.

    A publisher that appeared in the last moment of the translator before has no channel yet: it begins at its key
    frames, if they are newer than the class.
    """
    first = after_last
    for class_id, by_publisher in ends.items():
        since = documents[class_id].since if class_id in documents else after_last
        for publisher, newest in publishers.newest.items():
            end = by_publisher.get(publisher)
            key = publishers.keys.get(publisher, 0)
            if end is not None and end.position is not None:
                first = min(first, end.position.offset + 1) if newest > end.position.offset else first
            elif key > since:
                first = min(first, key)
    return first


class Decoders(NamedTuple):
    """Links that know what came before `first`, the offset to read from; `how` says where from, in words."""

    log_decoder: LogDecoder
    first: int
    how: str


async def bring_decoders(
    broker: Broker, view: TopicMetadata, log_decoder: LogDecoder, place: int, *, furthest: int | None = None
) -> Decoders:
    """Fresh links, brought to a place of the log, or before it where channels could not go on from there.

    That is so where a publisher was telling its whole state anew, in several messages. Who tells of it goes along from
    before the first of them.

    furthest: messages to read at most, where no channel goes on; where it would take more, the links know nothing
    """
    track = LogSelection(view.name)
    while True:
        found = await seek(broker, track, place, log_decoder, learn=view.learn, furthest=furthest)
        within = [name for name, link in found.log_decoder.links.items() if link.state is State.PARTIAL]
        begun = await last_keys(broker, track, within, place) if furthest is None else place
        if begun == place:
            found.log_decoder.offset = place - 1
            return Decoders(found.log_decoder, place, found.how)
        place = begun


def _read(stored: Stored) -> End:
    try:
        epoch, position, _ = unseal(stored.payload)
    except PeerFault as fault:
        _log.warning("%s: the last message cannot be read: %s", stored.subject, fault)
        return End(stored.offset, 0, None)
    return End(stored.offset, epoch, position)


class Resumed(NamedTuple):
    """A topic's translation, ready to read from `first` on; classes: those whose channels go on."""

    view: TopicMetadata
    shelf: ChannelStore
    store: CheckpointStore
    translation: Translation
    writer: ChannelWriter
    first: int
    classes: Mapping[str, DemandClass]


async def resume(broker: Broker, lease: Lease, asked: Mapping[str, ServingDecision]) -> Resumed:
    """Find out where a topic's channels stand, and bring decoders there; raises `UnknownLog` where it has no log."""
    topic = lease.topic
    began = asyncio.get_running_loop().time()
    view = await TopicMetadata.find(broker, await broker.bucket(REGISTRY), topic)
    span = await broker.span(log_of(topic))
    shelf, store = ChannelStore(await broker.bucket(CHANNELS), topic), await _store(broker)
    await shelf.load()
    if await _is_another_log(shelf, store, span):
        _log.warning("%s: the log was replaced; its channels begin anew", topic)
        await forget(broker, topic, lease.epoch)
        await shelf.load()
    await broker.open_log(channel_log_of(topic), [channel_subjects(topic)])
    open_before = {name for name, document in shelf.documents.items() if document.state == "open"}
    classes = {name: asked[name].asked for name in open_before & asked.keys()}
    epochs = {name: document.epoch for name, document in shelf.documents.items()}
    ends = await channel_ends(broker, topic, classes.keys(), epochs)
    await _begin_epoch(lease, shelf, ends)
    publishers = await Publishers.find(broker, topic)
    place = max(find_first_unsent(ends, shelf.documents, publishers, span.last + 1), span.first)
    furthest = None if classes else NEARBY
    log_decoder = LogDecoder(view.lookup, dictionaries=view.dictionary)
    decoders = await bring_decoders(broker, view, log_decoder, place, furthest=furthest)
    translation = Translation(topic, view.lookup, epoch=lease.epoch, log_decoder=decoders.log_decoder)
    writer = ChannelWriter(broker, topic)
    for name, one in classes.items():
        writer.ends_at(name, {publisher: end.offset for publisher, end in ends[name].items()})
        known = {publisher: end.position for publisher, end in ends[name].items() if end.position is not None}
        translation.open(one, known)
    took = asyncio.get_running_loop().time() - began
    _log.info(
        "%s: epoch %d, %d classes go on at %d of %d, decoders %s; took %.3f s",
        *(topic, lease.epoch, len(classes), decoders.first, span.last, decoders.how, took),
    )
    return Resumed(view, shelf, store, translation, writer, decoders.first, classes)


async def forget(broker: Broker, topic: str, epoch: int) -> None:
    """The topic is gone: nothing is said of its classes any more, and nothing told to them is kept."""
    shelf = ChannelStore(await broker.bucket(CHANNELS), topic)
    await shelf.load()
    for name in list(shelf.documents):
        await shelf.forget(name, epoch)
    await broker.delete_log(channel_log_of(topic))
    await (await _store(broker)).forget(topic)


async def _store(broker: Broker) -> CheckpointStore:
    piece = min(PIECE, broker.capabilities.max_payload // 2)
    return CheckpointStore(await broker.bucket(CHECKPOINTS), piece=piece)


async def _is_another_log(shelf: ChannelStore, store: CheckpointStore, span: Span) -> bool:
    """Do channels or checkpoints tell of places that the log has not come to? It was deleted and made again."""
    places = [document.since for document in shelf.documents.values()]
    places += [checkpoint.offset for checkpoint in await store.all(shelf.topic)]
    return max(places, default=0) > span.last


async def _begin_epoch(lease: Lease, shelf: ChannelStore, ends: Ends) -> None:
    """Epochs never go back, although the lease may have been lost: channels and documents tell of them too."""
    known = [document.epoch for document in shelf.documents.values()]
    known += [end.epoch for by_publisher in ends.values() for end in by_publisher.values()]
    if max(known, default=0) >= lease.epoch:
        await lease.advance(max(known) + 1)
