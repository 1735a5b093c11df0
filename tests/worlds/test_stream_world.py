"""Stream worlds have no violations, and changes of the decoder that break its guarantees are found."""

import pytest
from run_seeds import main, run_seeds
from stream_world import StreamWorld

from thinwire.codec import EventsMissed, StreamDecoder
from thinwire.schema import Event

PORTION = 25


@pytest.mark.parametrize("first", range(0, 200, PORTION))
def test_no_world_has_violations(first):
    totals = run_seeds("streams", first, PORTION)
    assert totals.failed == {}
    assert totals.counts["delivered"] > 0


@pytest.mark.slow
def test_no_world_of_many_seeds_has_violations():
    totals = run_seeds("streams", 10_000, 200, processes=2)
    assert totals.failed == {}
    assert totals.seeds == 200
    assert min(totals.counts[name] for name in ("restarts", "resyncs", "undetected")) > 0


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_repeats_the_same_world(seed):
    assert StreamWorld(seed).run() == StreamWorld(seed).run()


def test_kernels_run_in_some_worlds_and_can_be_forced():
    assert {StreamWorld(seed).compiled for seed in range(20)} == {True, False}
    assert [StreamWorld(seed, compiled=True).run().violations for seed in range(40, 50)] == [[]] * 10


def test_the_trace_of_a_seed_is_printed(capsys):
    assert main(["streams", "7"]) == 0
    printed = capsys.readouterr().out
    assert "p0 starts incarnation" in printed
    assert "no violations" in printed


def violations_of_worlds():
    """Return the violations of a few worlds as one text."""
    return " ".join(text for seed in range(12) for text in StreamWorld(seed, compiled=False).run().violations)


def test_a_loss_without_a_notice_is_found(monkeypatch):
    receive = StreamDecoder.receive

    def receive_without_notices(self, message, **options):
        return [delivery for delivery in receive(self, message, **options) if not isinstance(delivery, EventsMissed)]

    monkeypatch.setattr(StreamDecoder, "receive", receive_without_notices)
    assert "neither delivered nor missed" in violations_of_worlds()


def test_a_duplicate_event_is_found(monkeypatch):
    receive = StreamDecoder.receive

    def receive_twice(self, message, **options):
        return receive(self, message, **options) * 2

    monkeypatch.setattr(StreamDecoder, "receive", receive_twice)
    assert "delivered twice" in violations_of_worlds()


def test_a_wrong_value_is_found(monkeypatch):
    receive = StreamDecoder.receive

    def receive_wrong_values(self, message, **options):
        deliveries = receive(self, message, **options)
        for event in (delivery for delivery in deliveries if isinstance(delivery, Event)):
            event.update({name: value + 7 for name, value in event.items() if type(value) in (int, float)})
        return deliveries

    monkeypatch.setattr(StreamDecoder, "receive", receive_wrong_values)
    assert "bound" in violations_of_worlds()
