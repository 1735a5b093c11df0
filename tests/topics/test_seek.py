"""A reader after a seek receives exactly what a reader from the start of the log receives."""

import asyncio
from random import Random

import pytest
from translation_setup import Log
from translator_setup import Building, running, until

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.codec import Demand
from thinwire.schema import Property, Schema
from thinwire.topics import seeker
from thinwire.topics.checkpoint_store import CheckpointStore
from thinwire.topics.log_decoder import ChannelDecoder, LogDecoder
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.names import CHECKPOINTS, channel_subjects, is_key, log_of, publisher_subjects
from thinwire.topics.registry_client import open_registry, register_schema
from thinwire.topics.seeker import Seeker
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.wire import Request

STATES = ("heating", "cooling", "off", "an undeclared state of some length")


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Use checkpoints at any distance from key frames."""
    monkeypatch.setattr(seeker, "NEAR", 0)


class Story(Building):
    """A topic log with changing values, texts, configurations, incarnations and key frame rounds."""

    @classmethod
    async def write(cls, broker, seed):
        properties = [
            Property("room", "string", "dimension"),
            Property("t", "number", step="0.1"),
            Property("u", "float"),
            Property("state", "string"),
        ]
        made = cls(broker, Schema(f"building.story{seed}", properties))
        made.bucket = await open_registry(broker)
        await register_schema(made.bucket, made.schema)
        made.channels = await broker.bucket("tw_channels")
        await broker.ensure_log(log_of(made.topic), [publisher_subjects(made.topic)])
        await made.configure(1, Demand({"t": 0.2}))
        made.chance = Random(seed)
        made.log = Log(made.schema, demand=Demand({"t": 0.2}))
        made.store = CheckpointStore(await broker.bucket(CHECKPOINTS))
        await made.flush()
        return made

    async def publish_events(self, events):
        chance = self.chance
        for _ in range(events):
            room, name = f"r{chance.randrange(4)}", chance.choice(["p1", "p2"])
            values = {
                "t": round(20 + chance.gauss(0, 1), 1),
                "u": chance.choice((0.0, 1.5)),
                "state": chance.choice(STATES),
            }
            self.log.publish(name, {"room": room, **values}, flush=chance.random() < 0.7)
            if chance.random() < 0.1:
                self.log.heartbeat(name)
            self._disturb(name)
        await self.flush()

    def _disturb(self, name):
        what, publisher = self.chance.random(), self.log.publishers[name]
        if what < 0.02:
            self.log.append(name, publisher.answer(Request(0, 0), self.log.now))
        elif what < 0.04:
            self.log.heartbeat(name)
            self.log.reconfigure(Demand({"t": self.chance.choice((0.1, 0.2, 0.4))}))
        elif what < 0.05:
            self.log.flush(name)
            self.log.start_publisher(name, publisher.incarnation + 1)

    async def flush(self):
        for name in self.log.publishers:
            self.log.flush(name)
        for stored in self.log.messages[self.last :]:
            self.last = await self.broker.append(log_of(self.topic), stored.subject, stored.payload)

    async def checkpoints(self, number):
        async def taken():
            found = await self.store.read_all(self.topic)
            return len(found) >= number and found

        return await until(taken)


async def messages_of(broker, log, subjects):
    found = []
    reader = await broker.read(log, first=1, subjects=[subjects])
    end = (await broker.last(log, subjects)).offset
    while not found or found[-1].offset < end:
        found.append(await reader.next(1.0))
        reader.done(found[-1].offset)
    await reader.close()
    return found


def plain_deliveries(deliveries):
    return [
        (thing.identity, dict(thing), dict(thing.bound), thing.provisional) if hasattr(thing, "identity") else thing
        for thing in deliveries
    ]


def decode_all(log_decoder, messages):
    """Return the deliveries of each message, with positions for a channel."""
    return [
        (plain_deliveries(log_decoder.receive(stored, stored.time)), getattr(log_decoder, "position", None))
        for stored in messages
    ]


async def compare(broker, view, track, make, messages, offsets):
    """Compare readers from some offsets with one from the beginning. Return how each seek started."""
    complete, starts = decode_all(make(), messages), []
    for offset in offsets:
        sought = await Seeker(broker, track, view.fetch_definition).seek(make(), offset)
        sought.log_decoder.offset = offset - 1
        first = next((n for n, stored in enumerate(messages) if stored.offset >= offset), len(messages))
        assert decode_all(sought.log_decoder, messages[first:]) == complete[first:], (offset, sought.start_text)
        starts.append(sought.start_text)
    return starts


async def check_start_offsets(broker, view, track, checkpoints, messages, offsets):
    """A seek of one publisher starts at a key frame round of the feed, or after a checkpoint in the feed's offsets."""
    possible = {stored.offset for stored in messages if is_key(stored.subject)}
    for checkpoint in checkpoints:
        parts = [part for name, part in checkpoint.parts.items() if name.startswith(track.part_name(""))]
        possible |= {part.channel_offset + 1 for part in parts} if track.class_id else {checkpoint.offset + 1}
    for offset in offsets:
        start = await Seeker(broker, track, view.fetch_definition).start_offset("p1", offset)
        assert start == offset or start in possible


async def spoil(story, chance):
    """Truncate, alter or delete pieces of checkpoints."""
    bucket = await story.broker.bucket(CHECKPOINTS)
    for checkpoint in await story.store.read_all(story.topic):
        for part in checkpoint.parts.values():
            key = chance.choice(checkpoint.piece_keys(story.topic, part))
            if chance.random() < 0.2:
                await bucket.delete(key)
            elif chance.random() < 0.3:
                await bucket.put(key, (await bucket.get(key)).value[:-1] + b"?")


@pytest.mark.parametrize("seed", range(3))
def test_replay_from_any_offset_gives_the_same_events(seed, caplog):
    asyncio.run(_replay(seed, caplog))


async def _replay(seed, caplog):
    server, chance = LocalServer(), Random(seed)
    async with asyncio.timeout(120), LocalBroker(server) as broker, LocalBroker(server) as own:
        story = await Story.write(broker, seed)
        demands = [await story.subscribe("a", 0.6), await story.subscribe("b", 1.0, emit="changes")]
        async with running(own, checkpoint_messages=25):
            for one in demands:
                await story.wait_open(one)
            for taken in range(1, 5):
                await story.publish_events(60)
                await story.checkpoints(taken)
        view = await TopicMetadata.find(broker, await open_registry(broker), story.topic)
        for one in demands:
            view.add_class(one)
        tracks = [(LogSelection(story.topic), lambda: LogDecoder(view.lookup), publisher_subjects(story.topic))]
        for one in demands:
            subjects = channel_subjects(story.topic, one.id)
            changes = one.emit == "changes"
            tracks.append(
                (
                    LogSelection(story.topic, one.id),
                    lambda changes=changes: ChannelDecoder(view.lookup, only_changes=changes),
                    subjects,
                )
            )
        feeds = [(track, make, await messages_of(broker, track.log, subjects)) for track, make, subjects in tracks]
        for damaged in (False, True):
            if damaged:
                await spoil(story, chance)
            for track, make, messages in feeds:
                first, last = messages[0].offset, messages[-1].offset
                offsets = sorted(chance.sample(range(first + 1, last + 2), 12))
                await check_start_offsets(
                    broker, view, track, await story.store.read_all(story.topic), messages, offsets
                )
                starts = await compare(broker, view, track, make, messages, offsets)
                assert damaged or any("from the checkpoint" in text for text in starts)
        assert "skipped checkpoint" in caplog.text
        await story.store.delete(story.topic)
        for track, make, messages in feeds:
            offsets = chance.sample(range(messages[0].offset + 1, messages[-1].offset + 2), 4)
            starts = await compare(broker, view, track, make, messages, offsets)
            assert not any("from the checkpoint" in text for text in starts)
