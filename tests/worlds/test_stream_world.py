"""The world keeps its promises under every seed tried, and would notice if it did not."""

import pytest

from thinwire.codec import EventsMissed, StreamDecoder
from thinwire.schema import Event
from thinwire.testing.worlds.stream_world import StreamWorld, main, run_seeds

PORTION = 25


@pytest.mark.parametrize("first", range(0, 200, PORTION))
def test_nothing_is_violated(first):
    summary = run_seeds(first, PORTION, processes=1)
    assert summary.failed == {}
    assert summary.delivered > 0


@pytest.mark.slow
def test_nothing_is_violated_in_many_worlds():
    summary = run_seeds(10_000, 200)
    assert summary.failed == {}
    assert summary.seeds == 200
    assert min(summary.restarts, summary.resyncs, summary.let_through) > 0


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_replays_exactly(seed):
    assert StreamWorld(seed).run() == StreamWorld(seed).run()


def test_kernels_run_in_some_worlds_and_can_be_forced():
    assert {StreamWorld(seed).compiled for seed in range(20)} == {True, False}
    assert run_seeds(40, 10, processes=1, compiled=True).failed == {}


def test_the_story_of_a_seed_can_be_told(capsys):
    assert main(["7"]) == 0
    told = capsys.readouterr().out
    assert "p0 starts life" in told
    assert "nothing was violated" in told


def violations(seeds=12):
    """What is found in a few worlds."""
    failed = run_seeds(0, seeds, processes=1, compiled=False).failed
    return " ".join(what for found in failed.values() for what in found)


def test_a_loss_nobody_is_told_of_is_noticed(monkeypatch):
    receive = StreamDecoder.receive

    def silent(self, message, **place):
        return [thing for thing in receive(self, message, **place) if not isinstance(thing, EventsMissed)]

    monkeypatch.setattr(StreamDecoder, "receive", silent)
    assert "neither delivered nor missed" in violations()


def test_a_doubled_event_is_noticed(monkeypatch):
    receive = StreamDecoder.receive
    monkeypatch.setattr(StreamDecoder, "receive", lambda self, message, **place: receive(self, message, **place) * 2)
    assert "delivered twice" in violations()


def test_a_wrong_value_is_noticed(monkeypatch):
    receive = StreamDecoder.receive

    def wrong(self, message, **place):
        told = receive(self, message, **place)
        for event in (thing for thing in told if isinstance(thing, Event)):
            event.update({name: value + 7 for name, value in event.items() if type(value) in (int, float)})
        return told

    monkeypatch.setattr(StreamDecoder, "receive", wrong)
    assert "bound" in violations()
