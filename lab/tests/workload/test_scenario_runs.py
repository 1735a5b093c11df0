"""Runs of scenarios: all due events are published, requested events are delivered, lateness is reported."""

from __future__ import annotations

import asyncio
import itertools

import thinwire as tw
from thinwire_lab.workload.scenarios.scenario import read_scenario
from thinwire_lab.workload.scenarios.scenario_outcome import ScenarioOutcome
from thinwire_lab.workload.scenarios.scenario_run import run_scenario

SMALL = """
name = "small"
duration = 1.5
seed = 5
settle = 0.6

[topics.trade]
source = "market"
sources = 3
publishers = 2
rate = [[0, 40], [1, 120]]

[topics.wide]
source = "workload"
rate = 60
shapes = 2
drift = 0.5

[[subscribers]]
topic = "trade"
count = 2

[[subscribers]]
topic = "trade"
tolerance = { close = 2.0 }
default_tolerance = 2
where = "volume >= 0 and symbol = 'AAA'"

[[subscribers]]
topic = "wide"
where = "topic_at between 0 and 1"
properties = ["value"]
"""
_numbers = itertools.count()


def ran(text: str = SMALL) -> ScenarioOutcome:
    number = next(_numbers)

    async def story() -> ScenarioOutcome:
        async with asyncio.timeout(120):
            # the services of a broker in memory live with the first bus that opens it
            async with tw.connect(f"memory://scenario{number}"):
                return await run_scenario(read_scenario(text), lambda: tw.connect(f"memory://scenario{number}"))

    return asyncio.run(story())


def test_all_due_events_are_published_and_delivered() -> None:
    outcome = ran()
    trade, wide = outcome.topics
    due = read_scenario(SMALL).topics
    assert trade.events == len(due[0].rate.instants(1.5))
    assert wide.events == len(due[1].rate.instants(1.5)) == 90
    everything, chosen, boxed = outcome.audiences
    assert (everything.subscribers, everything.events, everything.missed) == (2, 2 * trade.events, 0)
    assert 0 < chosen.events < trade.events / 2
    assert boxed.events == wide.events
    for audience in outcome.audiences:
        assert audience.p50 is not None
        assert audience.most is not None
        assert 0 <= audience.p50 <= audience.most < 60
    published = [row for row in outcome.rows if row.role == "publisher"]
    assert sum(row.events for row in published) == trade.events + wide.events
    assert outcome.rows[-1].cpu_seconds["run"] > 0
