"""Dictionaries under load: switched, their service and publishers killed; nothing is lost, nothing out of order."""

import asyncio
import importlib.util
from dataclasses import replace

import pytest

from thinwire_lab.bench import bars
from thinwire_lab.bench.dictionary_bench import rows_of_switching
from thinwire_lab.live.dictionary_switch import InOrder, Switched, cut, switched
from thinwire_lab.live.kill_test import havoc
from thinwire_lab.live.load_chain import LoadOutcome
from thinwire_lab.live.saturation_rate import SHAPES

needs_a_broker = pytest.mark.skipif(importlib.util.find_spec("nats") is None, reason="needs the extra nats")


def test_an_ordered_subscriber_detects_disorder():
    notes = InOrder(source="sensor", stamp="time")
    events = [{"sensor": s, "time": t} for s, t in (("a", 1), ("b", 5), ("a", 2), ("a", 2), ("b", 4), ("b", 6))]
    notes.take(events[:3], events[:3], now=10)
    assert notes.disordered == 0
    notes.take(events[3:], events[3:], now=11)
    assert (notes.disordered, notes.events, notes.last) == (2, 6, {"a": 2, "b": 6})
    notes.begin()
    assert notes.disordered == 0


def test_every_switch_brings_another_dictionary():
    sample = b"".join(b'{"sensor": "s%d"}' % n for n in range(400))
    assert len({cut(sample, number).hash for number in range(50)}) == 50
    assert cut(b"", 3).content, "of a stream that has nothing to share there are dictionaries too"


def outcome(p99, lost=0):
    return LoadOutcome(1000.0, 60.0, events=60_000, sent=30_000, lost=lost, p50=5.0, p99=p99)


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (Switched(outcome(50.0), outcome(90.0), switches=6, bound=28), [True, True]),
        (Switched(outcome(50.0), outcome(120.0, lost=2), switches=6, bound=28), [False, False]),
        (Switched(outcome(50.0), outcome(50.0), switches=6, bound=4), [False, True]),
    ],
)
def test_rows_report_the_effect_of_switching(found, holds):
    assert [row.holds for row in rows_of_switching("spelled out, dictionaries", found, every=10.0)] == holds


def test_every_live_bar_has_its_place():
    names = [bar.name for bar in bars("dictionaries")]
    for name in (
        "dictionary kill dictionaries",
        "dictionary kill publisher",
        "dictionary knee, compact frames",
        "dictionary knee, frames of JSON",
        "dictionaries switched",
        "batches instead of dictionaries",
    ):
        assert name in names


@needs_a_broker
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dictionaries", "spelled out, dictionaries"])
def test_switching_loses_nothing(kind):
    few = replace(SHAPES[kind], publishers=2, readers=1, connections=2)
    found = asyncio.run(switched(few, rate=200.0, seconds=4.0, every=1.5))
    assert found.switching.lost == found.steady.lost == 0
    assert found.switches >= 2
    # a publisher that is kept waiting goes over to the newest alone
    assert found.bound >= 4, "each of the two went over while events flowed"


@needs_a_broker
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["dictionaries", "publisher"])
def test_nothing_is_lost_or_unreadable_when_something_is_killed(victim):
    found = asyncio.run(havoc(victim, kills=1, seed=5, dictionaries=True))
    assert found.faults == 0
    assert found.dictionary, "frames were packed"
    assert all(verdict.events > 40 for verdict in found.verdicts)
