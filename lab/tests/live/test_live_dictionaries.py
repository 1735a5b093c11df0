"""Dictionaries under load: switched, their service and publishers killed; nothing is lost, nothing out of order."""

import asyncio
import importlib.util
from dataclasses import replace

import pytest

from thinwire_lab.bench import find_benchmarks
from thinwire_lab.bench.dictionary_bench import switch_rows
from thinwire_lab.live.dictionary_switch import OrderCheck, SwitchResult, cut_dictionary, run_switches
from thinwire_lab.live.kill_test import run_kill_test
from thinwire_lab.live.load_chain import LoadOutcome
from thinwire_lab.live.saturation_rate import SHAPES

needs_a_broker = pytest.mark.skipif(importlib.util.find_spec("nats") is None, reason="needs the extra nats")


def test_an_ordered_subscriber_detects_disorder():
    received = OrderCheck(source="sensor", stamp="time")
    events = [{"sensor": s, "time": t} for s, t in (("a", 1), ("b", 5), ("a", 2), ("a", 2), ("b", 4), ("b", 6))]
    received.add(events[:3], events[:3], now=10)
    assert received.disordered == 0
    received.add(events[3:], events[3:], now=11)
    assert (received.disordered, received.events, received.last) == (2, 6, {"a": 2, "b": 6})
    received.begin()
    assert received.disordered == 0


def test_every_switch_brings_another_dictionary():
    sample = b"".join(b'{"sensor": "s%d"}' % n for n in range(400))
    assert len({cut_dictionary(sample, number).hash for number in range(50)}) == 50
    assert cut_dictionary(b"", 3).content, "a stream without common bytes has dictionaries, too"


def outcome(p99, lost=0):
    return LoadOutcome(1000.0, 60.0, events=60_000, sent=30_000, lost=lost, p50=5.0, p99=p99)


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (SwitchResult(outcome(50.0), outcome(90.0), switches=6, bindings=28), [True, True]),
        (SwitchResult(outcome(50.0), outcome(120.0, lost=2), switches=6, bindings=28), [False, False]),
        (SwitchResult(outcome(50.0), outcome(50.0), switches=6, bindings=4), [False, True]),
    ],
)
def test_rows_report_the_effect_of_switching(found, holds):
    assert [row.holds for row in switch_rows("json frames, dictionaries", found, interval=10.0)] == holds


def test_the_area_has_the_live_benchmarks():
    names = [benchmark.name for benchmark in find_benchmarks("dictionaries")]
    for name in (
        "dictionary kill dictionaries",
        "dictionary kill publisher",
        "dictionary saturation rate, compact frames",
        "dictionary saturation rate, frames of JSON",
        "dictionaries switched",
        "batches instead of dictionaries",
    ):
        assert name in names


@needs_a_broker
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dictionaries", "json frames, dictionaries"])
def test_switching_loses_nothing(kind):
    shape = replace(SHAPES[kind], publishers=2, subscriber_processes=1, connections=2)
    found = asyncio.run(run_switches(shape, rate=200.0, seconds=4.0, interval=1.5))
    assert found.switching.lost == found.steady.lost == 0
    assert found.switches >= 2
    # a delayed publisher uses only the newest dictionary
    assert found.bindings >= 4, "each of the two switched while events flowed"


@needs_a_broker
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["dictionaries", "publisher"])
def test_nothing_is_lost_or_unreadable_when_something_is_killed(victim):
    found = asyncio.run(run_kill_test(victim, kills=1, seed=5, dictionaries=True))
    assert found.faults == 0
    assert found.dictionary, "frames were packed"
    assert all(audit.events > 40 for audit in found.audits)
