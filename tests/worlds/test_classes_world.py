"""The world of classes keeps its promises under every seed tried, and would notice if it did not."""

import math

import pytest

from thinwire.brokers.protocol import Stored
from thinwire.codec import EventsMissed, StreamDecoder, StreamEncoder, Watermark
from thinwire.schema import Property, Schema
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.translation import Translation
from thinwire.testing.worlds import channel_world as classes_world_runs
from thinwire.testing.worlds import channel_world_translator as classes_world_translating
from thinwire.testing.worlds.channel_world import ChannelWorld, ChannelWorldSummary, main, run_seeds
from thinwire.testing.worlds.channel_world_publisher import ChannelWorldBroker
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import ChannelDecoder, LogDecoder
from thinwire.topics.names import key_subject, publisher_in
from thinwire.topics.position import Position, decode_envelope
from thinwire.wire import Request, join
from thinwire_lab.bench import robustness_bench as bars
from thinwire_lab.bench.benchmark import Setting

PORTION = 25
ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])


@pytest.mark.parametrize("first", range(0, 150, PORTION))
def test_nothing_is_violated(first):
    summary = run_seeds(first, PORTION, processes=1)
    assert summary.failed == {}
    assert summary.delivered > 0


@pytest.mark.slow
def test_nothing_is_violated_in_many_worlds():
    summary = run_seeds(10_000, 200)
    assert summary.failed == {}
    assert min(summary.missed, summary.stale, summary.refused) > 0
    assert summary.successions > summary.seeds


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_replays_exactly(seed):
    assert ChannelWorld(seed).run() == ChannelWorld(seed).run()


def test_the_story_of_a_seed_can_be_told(capsys):
    assert main(["7"]) == 0
    told = capsys.readouterr().out
    assert "p0 starts life" in told
    assert "begins epoch 1" in told
    assert "nothing was violated" in told


def test_the_bar_points_at_a_broken_seed(monkeypatch):
    monkeypatch.setattr(
        classes_world_runs, "run_seeds", lambda *_, **__: ChannelWorldSummary(3, failed={2: ["t off by 3"]})
    )
    (row,) = bars.CLASSES[0].measure(Setting(quick=True))
    assert (row.value, row.holds) == (1, False)
    assert row.note == "replay: python -m thinwire.testing.worlds.channel_world 2"


def violations(seeds=range(60)):
    """What is found in a few worlds, until something is."""
    for seed in seeds:
        found = ChannelWorld(seed).run().violations
        if found:
            return " ".join(found)
    return ""


def test_a_translator_that_forgets_to_tell_silence_is_noticed(monkeypatch):
    process_step = Channel._process_step

    def silent(self, step):
        if not isinstance(step, Watermark):
            process_step(self, step)

    monkeypatch.setattr(Channel, "_process_step", silent)
    assert "never came" in violations()


def test_a_reader_that_minds_no_epochs_is_noticed(monkeypatch):
    pass_on = ChannelDecoder.decode

    def careless(self, stored, now):
        self._epochs = dict.fromkeys(self._epochs, 0)
        return pass_on(self, stored, now)

    monkeypatch.setattr(ChannelDecoder, "decode", careless)
    assert violations()


def test_a_reader_that_knows_no_succession_is_noticed(monkeypatch):
    monkeypatch.setattr(StreamDecoder, "expect_successor", lambda self: None)
    assert "not one of the log" in violations()


def test_a_successor_that_begins_one_message_late_is_noticed(monkeypatch):
    end_of = ChannelWorldBroker._end

    def late(self, class_id, publisher):
        for end in end_of(self, class_id, publisher):
            yield end._replace(position=Position(end.position.offset + 1))

    monkeypatch.setattr(ChannelWorldBroker, "_end", late)
    assert violations()


def test_a_successor_that_repeats_half_a_message_is_noticed(monkeypatch):
    begin = Channel.begin

    def careless(self, decoder_state, position, *others):
        begin(self, decoder_state, Position(position.offset), *others)

    monkeypatch.setattr(Channel, "begin", careless)
    assert violations()


def test_a_translator_that_insists_on_nothing_is_noticed(monkeypatch):
    monkeypatch.setattr(classes_world_translating, "FENCE_INTERVAL", math.inf)
    assert violations((229, 486, 913, 967))


def test_a_holding_reader_that_is_not_told_where_a_successor_starts_is_noticed(monkeypatch):
    monkeypatch.setattr(ChannelDecoder, "take_succession", lambda self, publisher: False)
    assert violations(range(730, 760))


def test_a_reader_that_takes_anybody_for_a_successor_is_noticed(monkeypatch):
    pass_on = ChannelDecoder.decode

    def validated(self, stored, now):
        self._reached[publisher_in(stored.subject)] = decode_envelope(stored.payload)[1]
        return pass_on(self, stored, now)

    monkeypatch.setattr(ChannelDecoder, "decode", validated)
    assert "bound" in violations(range(328, 334))


def test_a_loss_nobody_is_told_of_is_noticed(monkeypatch):
    receive = StreamDecoder.receive

    def silent(self, message, **place):
        return [thing for thing in receive(self, message, **place) if not isinstance(thing, EventsMissed)]

    monkeypatch.setattr(StreamDecoder, "receive", silent)
    assert "neither delivered nor missed" in violations()


def test_a_batch_that_breaks_off_brings_no_event_again():
    writer, reader = StreamEncoder(ROOMS, name="p"), StreamDecoder([ROOMS], publisher="p")
    frames = writer.start(0)
    for t in (20.0, 20.5, 21.0):
        frames += writer.publish({"room": "a", "t": t}, 0)
    for frame in frames:
        reader.receive(frame, now=0.0)
    told = reader.receive(join(frames[-2:])[:2], now=0.0)
    assert [type(thing) for thing in told] == [EventsMissed]


def test_a_successor_begins_before_a_gap_of_the_log_not_behind_it():
    writer, log_decoder = StreamEncoder(ROOMS, name="p", compiled=False), LogDecoder({ROOMS.fingerprint: ROOMS}.get)
    subject = key_subject("rooms", "p")
    log_decoder.receive(Stored(1, subject, writer.start(0)[0], 0.0), 0.0)
    translation = Translation("rooms", {ROOMS.fingerprint: ROOMS}.get, epoch=2, log_decoder=log_decoder)
    translation.open(DemandClass({"t": 0.5}), {"p": Position(1)})
    translation.receive(Stored(3, subject, writer.answer(Request(0, 0), 5)[0], 5.0))
    places = [(decode_envelope(message.payload)[1], message.key) for message in translation.take_messages(65_536)]
    assert places == [(Position(1), True), (Position(3), True)]
