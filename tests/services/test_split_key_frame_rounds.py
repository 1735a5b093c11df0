"""A translator that stops within a key frame round of several messages is replaced without a loss."""

import asyncio
from types import SimpleNamespace

import pytest
from translation_setup import Channels, Log, Reader

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.codec import Demand, State
from thinwire.codec import stream_encoder as publisher
from thinwire.schema import Property, Schema
from thinwire.services.translator.translator_recovery import restore_decoders
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.names import log_of, publisher_subjects
from thinwire.topics.position import decode_envelope
from thinwire.wire import FrameKind, split

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
COARSE = DemandClass({"t": 1.0})
HELD = DemandClass({"t": 1.0}, emit="changes")
LIMIT = 65_536


@pytest.fixture
def log(monkeypatch):
    """A log with key frame rounds of several messages, one after a new configuration; each frame is a message."""
    monkeypatch.setattr(publisher, "CHUNK_BYTES", 20)
    log = Log(ROOMS, publishers=["p1"], demand=Demand({"t": 0.1}))
    for k in range(40):
        log.publish("p1", {"room": f"room {k % 8}", "t": 20 + k * 7 % 13 / 10})
    log.heartbeat("p1")
    encoder = log.publishers["p1"]
    log.config = type(log.config)(log.config.version + 1, Demand({"t": 0.4}))
    for frame in encoder.reconfigure(log.config, log.now):
        log.append("p1", [frame])
    for k in range(40, 60):
        log.publish("p1", {"room": f"room {k % 8}", "t": 20 + k * 7 % 13 / 10})
    log.heartbeat("p1")
    return log


def second_round(log):
    """Return the indexes of the key frames of the round after the new configuration."""
    keys = [n for n, stored in enumerate(log.messages) if split(stored.payload)[0][0] & 15 == FrameKind.KEY]
    return [n for n in keys if n > 10]


def test_a_successor_within_a_round_resumes_without_a_loss(log):
    asyncio.run(_take_over(log))


async def _take_over(log):
    round_ = second_round(log)
    assert len(round_) > 3
    async with LocalBroker(LocalServer()) as broker:
        await broker.ensure_log(log_of("rooms"), [publisher_subjects("rooms")])
        for stored in log.messages:
            await broker.append(log_of("rooms"), stored.subject, stored.payload)
        for number in (round_[0] - 1, *round_, round_[-1] + 1, round_[-1] + 5):
            for one in (COARSE, HELD):
                await _succeed(broker, log, one, number + 1, round_)


async def _succeed(broker, log, one, count, round_):
    """Replace a translator after `count` messages; within the round its successor reads from before the round."""
    first = log.translation(1)
    first.open(one)
    for stored in log.messages[:count]:
        first.receive(stored)
    first.send_suppressed()
    channels = Channels(log)
    channels.messages = first.take_messages(LIMIT)
    position = channels.ends(one.id)["p1"].offset + 1
    assert (position <= count) == (count - 1 in round_[1:]), "a channel sends nothing for the rest of a round"
    view = SimpleNamespace(name="rooms", fetch_definition=None)
    decoders = await restore_decoders(broker, view, LogDecoder(log.schemas()), position)
    first_unread = decoders.log_decoder.offset + 1
    assert first_unread == (round_[0] + 1 if count - 1 in round_ else position)
    assert decoders.log_decoder.decoders["p1"].state is State.READY
    second = log.translation(2, log_decoder=decoders.log_decoder)
    second.open(one, channels.ends(one.id))
    for stored in log.messages[first_unread - 1 :]:
        second.receive(stored)
    taken = second.take_messages(LIMIT)
    assert taken[0].is_key
    assert decode_envelope(taken[0].payload)[:2] == (2, channels.ends(one.id)["p1"])
    reader = Reader(log, one)
    reader.read(channels.messages + taken)
    assert reader.missed == []
    assert sorted(event.identity for event in reader.events) == sorted(log.truth)
    for event in reader.events:
        assert abs(event["t"] - log.truth[event.identity]["t"]) <= event.bound["t"] + 1e-9 <= 1.0 + 2e-9
