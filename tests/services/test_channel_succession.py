"""Readers of a channel whose translator was replaced."""

import pytest
from translation_setup import Channels, Log

from thinwire.brokers.protocol import StoredMessage
from thinwire.client.change_baseline import ChangeBaseline
from thinwire.client.feed import ChannelFeed
from thinwire.codec import EventsMissed, StreamDecoder, StreamEncoder
from thinwire.schema import Event, Property, Schema
from thinwire.services.translator.translation import Translation
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import ChannelDecoder, LogDecoder
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.names import channel_data_subject, channel_key_subject, key_subject
from thinwire.topics.position import Position, decode_envelope
from thinwire.wire import Request, join

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
COARSE = DemandClass({"t": 1.0})
LIMIT = 65_536


class ChannelReader:
    """Reads messages of one channel with the decoder of a subscription."""

    def __init__(self, log):
        self.decoder = ChannelDecoder(log.schemas([COARSE]))
        self.deliveries = []
        self._offset = 0

    def read(self, messages):
        for message in messages:
            self._offset += 1
            subject = (channel_key_subject if message.is_key else channel_data_subject)("rooms", COARSE.id, "p1")
            self.deliveries += self.decoder.receive(StoredMessage(self._offset, subject, message.payload, 0.0), 0.0)

    def select(self, kind):
        return [delivery for delivery in self.deliveries if isinstance(delivery, kind)]


@pytest.fixture(scope="module")
def log():
    log = Log(ROOMS, publishers=["p1"])
    for k in range(40):
        log.publish("p1", {"room": "ab"[k % 2], "t": 20 + (k * 7 % 23) / 2})
    log.heartbeat("p1")
    return log


@pytest.fixture(scope="module")
def written(log):
    """The messages of the first translator."""
    translation = log.translation()
    translation.open(COARSE)
    for stored in log.messages:
        translation.receive(stored)
    return translation.take_messages(1)


def continue_after(log, messages):
    """Return the messages of a successor that knows these messages of its predecessor."""
    channels = Channels(log)
    channels.messages = messages
    successor, first = channels.successor([COARSE], epoch=2)
    for stored in log.messages[first:]:
        successor.receive(stored)
    return successor.take_messages(LIMIT)


def test_a_reader_at_the_end_of_the_predecessor_continues_without_a_gap(log, written):
    reader = ChannelReader(log)
    reader.read(written[:20] + continue_after(log, written[:20]))
    assert [event.identity for event in reader.select(Event)] == list(log.truth)
    assert not reader.select(EventsMissed)


@pytest.mark.parametrize("late", [1, 2, 5])
def test_a_reader_after_the_position_of_the_successor_reports_a_gap_and_repeats_no_event(log, written, late):
    reader = ChannelReader(log)
    reader.read(written[: 20 + late] + continue_after(log, written[:20]))
    events = reader.select(Event)
    assert all(abs(event["t"] - log.truth[event.identity]["t"]) <= event.bound["t"] <= 1 for event in events)
    assert sorted(event.identity for event in events) == sorted(log.truth)
    assert reader.select(EventsMissed)


@pytest.mark.parametrize("copied", [18, 19])
def test_no_event_is_repeated_if_the_successor_continues_after_a_late_copy(log, written, copied):
    reader = ChannelReader(log)
    reader.read([*written[:20], written[copied], *continue_after(log, [*written[:20], written[copied]])])
    assert sorted(event.identity for event in reader.select(Event)) == sorted(log.truth)


def test_late_messages_after_the_successor_are_dropped(log, written):
    reader = ChannelReader(log)
    reader.read(written[:20] + continue_after(log, written[:20]) + written[20:])
    assert [event.identity for event in reader.select(Event)] == list(log.truth)
    assert not reader.select(EventsMissed)


def test_the_state_of_a_successor_is_compared_once(log, written):
    reader = ChannelReader(log)
    feed = ChannelFeed(None, LogSelection("rooms", COARSE.id), reader.decoder, 1)
    baseline = ChangeBaseline(has_predicate=False)
    changed = []
    for message in written[:20] + continue_after(log, written[:20]):
        reader.read([message])
        changed.append(baseline.needs_comparison_after(feed, reader.decoder.current, 1))
    assert [index for index, is_changed in enumerate(changed) if is_changed] == [20]


def test_a_truncated_batch_repeats_no_event():
    writer, reader = StreamEncoder(ROOMS, name="p"), StreamDecoder([ROOMS], publisher="p")
    frames = writer.start(0)
    for t in (20.0, 20.5, 21.0):
        frames += writer.publish({"room": "a", "t": t}, 0)
    for frame in frames:
        reader.receive(frame, now=0.0)
    deliveries = reader.receive(join(frames[-2:])[:2], now=0.0)
    assert [type(delivery) for delivery in deliveries] == [EventsMissed]


def test_a_successor_begins_before_a_gap_of_the_log():
    writer, log_decoder = StreamEncoder(ROOMS, name="p", compiled=False), LogDecoder({ROOMS.fingerprint: ROOMS}.get)
    subject = key_subject("rooms", "p")
    log_decoder.receive(StoredMessage(1, subject, writer.start(0)[0], 0.0), 0.0)
    translation = Translation("rooms", {ROOMS.fingerprint: ROOMS}.get, epoch=2, log_decoder=log_decoder)
    translation.open(DemandClass({"t": 0.5}), {"p": Position(1)})
    translation.receive(StoredMessage(3, subject, writer.answer(Request(0, 0), 5)[0], 5.0))
    messages = [(decode_envelope(message.payload)[1], message.is_key) for message in translation.take_messages(LIMIT)]
    assert messages == [(Position(1), True), (Position(3), True)]
