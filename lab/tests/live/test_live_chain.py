"""Whole chains around a real broker: every stack delivers every event, and nothing is lost when a process is killed."""

import asyncio
import importlib.util

import pytest

from thinwire_lab.bench import find_benchmarks
from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.live.kill_test import run_kill_test
from thinwire_lab.live.live_feed import feed_schema
from thinwire_lab.live.load_chain import Chain, ChainShape
from thinwire_lab.live.stacks import STACKS
from thinwire_lab.live.wire_bytes import Wire, measure_wires
from thinwire_lab.reproduce.virtual_events import virtual_event_figures as experiment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nats") is None, reason="needs the extra nats"),
]


@pytest.mark.parametrize("kind", sorted(STACKS))
def test_every_stack_delivers_every_event(kind):
    async def run():
        async with Chain(ChainShape(kind, publishers=2, subscriber_processes=1, connections=2), feed_schema()) as chain:
            first = await chain.round(400, 1.0, warm_up=0.0)
            return first, await chain.round(200, 1.0, warm_up=0.0), await chain.stored(), chain.processes

    first, second, stored, processes = asyncio.run(run())
    assert (first.lost, second.lost) == (0, 0)
    assert first.events == pytest.approx(400 + 100, abs=10)
    assert (first.sent < first.events) is (kind == "thinwire")
    assert stored > 0
    assert set(first.cpu) == {name.partition(" ")[0] for name in processes}


def test_ours_weighs_less_than_json_on_the_wire():
    wires = [Wire("thinwire", 0.1, 20.0), Wire("json", 0.0, 20.0), Wire("json-batched", 0.1, 20.0)]
    weights = asyncio.run(measure_wires(wires, 2.0))
    assert all(weight.complete for weight in weights.values())
    ours, plain, batched = (weights[wire].per_event for wire in wires)
    assert ours < plain / 4
    assert batched < plain


@pytest.mark.parametrize("victim", ["broker", "publisher", "subscriber", "registry"])
def test_nothing_is_lost_when_something_is_killed(victim):
    found = asyncio.run(run_kill_test(victim, kills=1, seed=5))
    assert found.faults == 0
    assert all(audit.events > 40 for audit in found.audits)


def test_the_whole_chain_is_seen():
    plain, ours = experiment.figure_7(runs=1, seconds=3.0, rate=100.0)
    assert set(plain.by_role) == {"broker", "publisher", "subscriber", experiment.CHAIN}
    assert set(ours.by_role) == {*plain.by_role, "registry"}
    assert ours.stored[0] < plain.stored[0] / 4
    assert all(run.lost == 0 for run in (*plain.runs, *ours.runs))
    assert len(ours.over_time) >= 3


def test_the_area_is_complete():
    assert [benchmark.name for benchmark in find_benchmarks("live")] == [
        "link bytes",
        *(f"kill {victim}" for victim in ("broker", "publisher", "subscriber", "registry")),
        "saturation rate",
    ]
    assert not Setting().quick
