"""Classes around a real broker at a small size: audits without faults, also after kills and pauses."""

import asyncio
import importlib.util

import pytest

from thinwire_lab.bench import find_benchmarks
from thinwire_lab.live.kill_test import THREE_CLASSES, run_kill_test
from thinwire_lab.live.live_feed import feed_schema
from thinwire_lab.live.load_chain import Chain, ChainShape
from thinwire_lab.live.many_sources import run_many_sources
from thinwire_lab.live.translator_failover import kill_translator, pause_translator
from thinwire_lab.reproduce.virtual_events.live_figures import figure_6_live

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nats") is None, reason="needs the extra nats"),
]


def silent(share):
    """No progress is shown."""


def test_every_class_receives_its_required_events():
    async def run():
        shape = ChainShape(
            "thinwire", publishers=2, subscriber_processes=2, connections=3, emit="changes", classes=(0.5, 2.0, 8.0)
        )
        async with Chain(shape, feed_schema()) as chain:
            await chain.round(200, 1.0, warm_up=0.0)
            return await chain.round(400, 2.0, warm_up=0.0)

    found = asyncio.run(run())
    assert found.lost == 0
    assert {"translator", "registry", "subscriber", "publisher", "broker"} == set(found.cpu)
    assert found.cpu_seconds("translator") > 0


@pytest.mark.parametrize("victim", ["translator", "subscriber"])
def test_no_class_loses_anything_when_something_is_killed(victim):
    found = asyncio.run(run_kill_test(victim, kills=1, seed=5, demands=THREE_CLASSES))
    assert found.faults == 0
    assert all(audit.events > 40 for audit in found.audits)


def test_another_translator_resumes():
    found = asyncio.run(kill_translator(5_000, 1, silent, checkpoint_messages=50, lease=1.0))
    assert found.faults == 0
    assert found.stored > 0
    assert found.delivered is not None
    assert found.replayed >= 0


def test_a_resumed_translator_is_fenced():
    found = asyncio.run(pause_translator(4.0, silent, lease=1.0))
    assert found.faults == 0
    assert found.takeover > 0


def test_many_subscriptions_are_served_per_class():
    found = asyncio.run(run_many_sources(30, 400, silent))
    assert found.faults == 0
    assert found.events == 1200
    assert 0 < found.encodings <= 10 * found.events


def test_figure_6_through_the_running_system():
    for stage in figure_6_live(300):
        raw, log, channel, reconstructed = stage.per_event
        assert channel < log < raw / 3
        assert reconstructed == pytest.approx(raw, rel=0.1)
        assert stage.stored[0] > stage.totals[1]
        assert stage.stored[1] > stage.totals[2]


def test_the_area_is_complete():
    found = [benchmark.name for benchmark in find_benchmarks("classes")]
    assert found[:9] == [
        *(f"class kill {victim}" for victim in ("translator", "broker", "publisher", "subscriber", "registry")),
        "class pause",
        *(f"class recovery, checkpoints {how}" for how in ("seldom", "often")),
        "many subscribers and sources",
    ]
    assert "class saturation rate" in found
