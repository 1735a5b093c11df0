"""The beginning of a topic's translation: everything that its predecessor left, put together again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from thinwire.brokers.protocol_broker import Broker, Span
from thinwire.services.translator.channel_writer import ChannelWriter
from thinwire.services.translator.subscription_groups_planning import Served
from thinwire.services.translator.translation import Translation
from thinwire.services.translator.translator_recovery import NEARBY, Ends, bring_decoders, channel_ends, first_untold
from thinwire.topics.channel_documents import ChannelShelf
from thinwire.topics.checkpoint_store import PIECE, CheckpointStore
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.leases import Lease
from thinwire.topics.log_decoder_inlet import Inlet
from thinwire.topics.log_position import Publishers
from thinwire.topics.names import CHANNELS, CHECKPOINTS, REGISTRY, channel_log_of, channel_subjects, log_of
from thinwire.topics.topic import Topic

_log = logging.getLogger("thinwire.translator")


class Resumed(NamedTuple):
    """A topic's translation, ready to read from `first` on; classes: those whose channels go on."""

    view: Topic
    shelf: ChannelShelf
    store: CheckpointStore
    translation: Translation
    writer: ChannelWriter
    first: int
    classes: Mapping[str, DemandClass]


async def resume(broker: Broker, lease: Lease, asked: Mapping[str, Served]) -> Resumed:
    """Find out where a topic's channels stand, and bring decoders there; raises `UnknownLog` where it has no log."""
    topic = lease.topic
    began = asyncio.get_running_loop().time()
    view = await Topic.find(broker, await broker.bucket(REGISTRY), topic)
    span = await broker.span(log_of(topic))
    shelf, store = ChannelShelf(await broker.bucket(CHANNELS), topic), await _store(broker)
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
    place = max(first_untold(ends, shelf.documents, publishers, span.last + 1), span.first)
    furthest = None if classes else NEARBY
    inlet = Inlet(view.lookup, dictionaries=view.dictionary)
    decoders = await bring_decoders(broker, view, inlet, place, furthest=furthest)
    translation = Translation(topic, view.lookup, epoch=lease.epoch, inlet=decoders.inlet)
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
    shelf = ChannelShelf(await broker.bucket(CHANNELS), topic)
    await shelf.load()
    for name in list(shelf.documents):
        await shelf.forget(name, epoch)
    await broker.delete_log(channel_log_of(topic))
    await (await _store(broker)).forget(topic)


async def _store(broker: Broker) -> CheckpointStore:
    piece = min(PIECE, broker.capabilities.max_payload // 2)
    return CheckpointStore(await broker.bucket(CHECKPOINTS), piece=piece)


async def _is_another_log(shelf: ChannelShelf, store: CheckpointStore, span: Span) -> bool:
    """Do channels or checkpoints tell of places that the log has not come to? It was deleted and made again."""
    places = [document.since for document in shelf.documents.values()]
    places += [checkpoint.offset for checkpoint in await store.all(shelf.topic)]
    return max(places, default=0) > span.last


async def _begin_epoch(lease: Lease, shelf: ChannelShelf, ends: Ends) -> None:
    """Epochs never go back, although the lease may have been lost: channels and documents tell of them too."""
    known = [document.epoch for document in shelf.documents.values()]
    known += [end.epoch for by_publisher in ends.values() for end in by_publisher.values()]
    if max(known, default=0) >= lease.epoch:
        await lease.advance(max(known) + 1)
