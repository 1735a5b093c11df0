"""A scenario on a real broker: everybody is there first, then events are due, then what is on its way arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from thinwire.client import Bus
from thinwire.ledger import Tally
from thinwire_lab.workload.scenarios.scenario import Audience, Scenario
from thinwire_lab.workload.scenarios.scenario_events import interests_of, schema_of
from thinwire_lab.workload.scenarios.scenario_outcome import ScenarioOutcome, of_audience, of_topic
from thinwire_lab.workload.scenarios.scenario_run import Instants
from thinwire_lab.workload.scenarios.scenario_run_publishing import Emission
from thinwire_lab.workload.scenarios.scenario_run_subscribing import Listener

LEAD = 0.2
"""seconds between everybody being there and the first event"""
PATIENCE = 60.0
"""seconds that what is on its way may take to arrive, at most"""

Connect = Callable[[], Bus]
Listeners = list[tuple[Audience, list[Listener]]]


async def run_scenario(
    scenario: Scenario,
    connect: Connect,
    progress: Callable[[float], None] = lambda share: None,
    *,
    shared: bool = False,
) -> ScenarioOutcome:
    """Publish and subscribe as a scenario says.

    connect: makes a bus that is not open yet; publishers and subscribers have one each
    shared: they have one together, since every bus of this kind starts a broker of its own
    """
    said, began = Instants(), time.process_time()
    async with AsyncExitStack() as stack:
        sending = await stack.enter_async_context(connect())
        receiving = sending if shared else await stack.enter_async_context(connect())
        for scene in scenario.topics:
            await sending.register(schema_of(scene), **scene.settings)
        emissions = await _emissions(sending, scenario, said, stack)
        listeners = await _listeners(receiving, scenario, said, stack)
        start = asyncio.get_running_loop().time() + LEAD
        await _run(scenario, emissions, [one for _, several in listeners for one in several], start, progress)
        seconds = asyncio.get_running_loop().time() - start
        outcome = _outcome(scenario, seconds, emissions, listeners, time.process_time() - began)
    return outcome


async def _emissions(bus: Bus, scenario: Scenario, said: Instants, stack: AsyncExitStack) -> list[Emission]:
    found = []
    for scene in scenario.topics:
        due = scene.rate.instants(scenario.duration, scene.arrivals, scenario.seed)
        for number in range(scene.publishers):
            emission = Emission(bus, scenario, scene, number, due[number :: scene.publishers], said)
            await emission.open()
            stack.push_async_callback(emission.close)
            found.append(emission)
    return found


async def _listeners(bus: Bus, scenario: Scenario, said: Instants, stack: AsyncExitStack) -> Listeners:
    found: Listeners = []
    number = 0
    for audience in scenario.audiences:
        wheres = interests_of(audience.count, scenario.seed) if audience.interests else []
        several = []
        for at in range(audience.count):
            asked = {**audience.asked, "where": wheres[at]} if wheres else audience.asked
            listener = Listener(bus, scenario, audience, asked, number, said)
            await listener.open()
            stack.push_async_callback(listener.close)
            several.append(listener)
            number += 1
        found.append((audience, several))
    return found


async def _run(
    scenario: Scenario,
    emissions: list[Emission],
    listeners: list[Listener],
    start: float,
    progress: Callable[[float], None],
) -> None:
    loop = asyncio.get_running_loop()
    hearing = [asyncio.create_task(listener.run(start), name="scenario subscriber") for listener in listeners]
    sending = [asyncio.create_task(emission.run(start), name="scenario publisher") for emission in emissions]
    telling = asyncio.create_task(_tell(scenario, start, progress))
    try:
        await _all(sending, hearing)
        ended = loop.time()
        while listeners and not _is_quiet(listeners, ended, scenario.settle) and loop.time() - ended < PATIENCE:
            await asyncio.sleep(0.05)
            for task in hearing:
                if task.done():
                    task.result()
    finally:
        for task in (*sending, *hearing, telling):
            task.cancel()
        await asyncio.gather(*sending, *hearing, telling, return_exceptions=True)


async def _all(sending: list[asyncio.Task[None]], hearing: list[asyncio.Task[None]]) -> None:
    """Wait until everything is sent; whoever fails ends it."""
    waiting = set(sending)
    while waiting:
        done, _ = await asyncio.wait({*waiting, *hearing}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        waiting -= done


def _is_quiet(listeners: list[Listener], ended: float, settle: float) -> bool:
    """Has nothing come for a while, to anybody?"""
    newest = max(ended, *(listener.heard for listener in listeners))
    return asyncio.get_running_loop().time() - newest >= settle


async def _tell(scenario: Scenario, start: float, progress: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        progress(min(1.0, max(0.0, (loop.time() - start) / scenario.duration)))
        await asyncio.sleep(0.25)


def _outcome(
    scenario: Scenario, seconds: float, emissions: list[Emission], listeners: Listeners, cpu: float
) -> ScenarioOutcome:
    whole = Tally(scenario.name, role="run")
    whole.cpu("run", cpu)
    sent = {one.name: [e for e in emissions if e.scene.name == one.name] for one in scenario.topics}
    published = {name: [emission.row() for emission in several] for name, several in sent.items()}
    handed = [
        ([one.row() for one in several], sum(one.feed == "channel" for one in several)) for _, several in listeners
    ]
    return ScenarioOutcome(
        scenario.name,
        scenario.seed,
        seconds,
        tuple(of_topic(name, rows, [e.late for e in sent[name]]) for name, rows in published.items()),
        tuple(of_audience(rows, on_channels) for rows, on_channels in handed),
        (
            *(row for rows in published.values() for row in rows),
            *(row for rows, _ in handed for row in rows),
            whole.row(),
        ),
    )
