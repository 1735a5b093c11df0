"""When each event of a run was meant to be sent, by its identity.

Latency is counted from there, and not from when it was sent: a publisher that falls behind cannot hide it.

>>> instants = Instants()
>>> instants.note("p1", 1, ("T1",), 0.25); instants.note("p1", 1, ("T1",), 0.75)
>>> instants.of(("p1", 1, ("T1",), 2)), instants.of(("p9", 1, ("T1",), 2))
(0.75, None)

One publisher of a scenario: events go out when they are due, whatever has become of those before (open loop).

One subscriber of a scenario: how many events came, how late, and what it was told to be missing.

A scenario on a real broker: everybody is there first, then events are due, then what is on its way arrives.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from itertools import islice
from typing import Any

from thinwire.client import Bus, Publisher
from thinwire.codec import EventsMissed
from thinwire.ledger import Histogram, Row, RowTally
from thinwire.schema import Event, flatten
from thinwire.schema.event import Identity
from thinwire_lab.errors import ScenarioError
from thinwire_lab.workload.random_rows import Floats
from thinwire_lab.workload.scenarios.scenario import Audience, Scenario, TopicScene
from thinwire_lab.workload.scenarios.scenario_events import events_of, interests_of, schema_of, shape_at
from thinwire_lab.workload.scenarios.scenario_outcome import ScenarioOutcome, of_audience, of_topic

Source = tuple[Any, ...]


class Instants:
    """Seconds since the beginning of a run, by publisher, life, source and number."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, int, Source], array[float]] = {}

    def note(self, publisher: str, life: int, source: Source, instant: float) -> None:
        """The next event of a source."""
        key = publisher, life, source
        known = self._of.get(key)
        if known is None:
            known = self._of[key] = array("d")
        known.append(instant)

    def of(self, identity: Identity) -> float | None:
        """When an event was meant to be sent; None where it is none of this run."""
        publisher, life, source, ordinal = identity
        known = self._of.get((publisher, life, source))
        return known[ordinal - 1] if known is not None and 0 < ordinal <= len(known) else None


SHORTEST = 0.0005
"""seconds that a publisher sleeps at least: events due meanwhile go together"""


class Emission:
    """What one publisher sends.

    late: seconds between the instant an event was meant to be sent at and the moment it was
    """

    def __init__(
        self, bus: Bus, scenario: Scenario, scene: TopicScene, number: int, due: Floats, said: Instants
    ) -> None:
        self.scene = scene
        self.name = f"{scenario.name}-{number}"
        self.late = Histogram()
        self._bus = bus
        self._scenario = scenario
        self._due = due
        self._said = said
        self._events: Iterator[dict[str, Any]] = events_of(scene, due, scenario.duration, scenario.seed, number)
        self._tally = RowTally(scenario.name, scene.name, self.name, role="publisher")
        self._shape, self._schema = 1, schema_of(scene)
        self._out: Publisher | None = None

    async def open(self) -> None:
        """Be known to everybody, before anything is due."""
        self._out = self._bus.publisher(self.scene.name, name=self.name)
        await self._out.__aenter__()

    async def run(self, start: float) -> None:
        """Send everything; start: the loop's time at which the run begins."""
        loop, sent = asyncio.get_running_loop(), 0
        while sent < len(self._due):
            now = loop.time() - start
            due = int(self._due.searchsorted(now, side="right"))
            if due == sent:
                await asyncio.sleep(max(SHORTEST, self._due[sent] - now))
                continue
            sent = await self._send(sent, due, loop.time() - start)
        await self.close()

    async def close(self) -> None:
        """What was passed over in silence is told, and everything is stored."""
        if self._out is not None:
            out, self._out = self._out, None
            await out.flush()
            self._count(out)
            await out.__aexit__(None, None, None)

    def row(self) -> Row:
        """What it has sent, for the ledger."""
        return self._tally.row()

    async def _send(self, first: int, last: int, now: float) -> int:
        """The events from one to another, as far as they have the same shape."""
        shapes = [self._shape_of(at) for at in range(first, last)]
        if shapes[0] != self._shape:
            await self._change_to(shapes[0])
        count = next((at for at, shape in enumerate(shapes) if shape != self._shape), len(shapes))
        assert self._out is not None
        events, instants = list(islice(self._events, count)), self._due[first : first + count].tolist()
        for event, instant in zip(events, instants, strict=True):
            self._said.note(self.name, self._out.encoder.incarnation, self._source(event), instant)
        self.late.add_many([max(0.0, now - instant) for instant in instants])
        if await self._out.publish_all(events) != count:
            raise ScenarioError(
                "events do not fit their schema: see the dead letters", field=f"topics.{self.scene.name}"
            )
        return first + count

    def _shape_of(self, at: int) -> int:
        return shape_at(self.scene, float(self._due[at]), self._scenario.duration)

    async def _change_to(self, shape: int) -> None:
        """Messages have another shape from now on: another version of the schema, told by another life."""
        await self.close()
        self._shape, self._schema = shape, schema_of(self.scene, shape)
        await self._bus.register(self._schema, **self.scene.settings)
        await self.open()

    def _source(self, event: dict[str, Any]) -> tuple[Any, ...]:
        flat = flatten(event, self._schema) if self._schema.nested else event
        return tuple(flat[p.name] for p in self._schema.dimensions)

    def _count(self, out: Publisher) -> None:
        counts, link = out.counts, out.encoder
        self._tally.count(
            events=counts.events,
            frames=counts.frames,
            messages=out.messages,
            rejected=counts.rejected,
            data_bytes=counts.data_bytes,
            key_bytes=counts.key_bytes,
            control_bytes=counts.control_bytes,
            suppressed_events=link.suppressed_events,
            suppressed_values=max(0, link.suppressed_values),
        )


class Listener:
    """What one subscriber is handed.

    heard: the loop's time of the last event
    """

    def __init__(
        self, bus: Bus, scenario: Scenario, audience: Audience, asked: Mapping[str, Any], number: int, said: Instants
    ) -> None:
        self.audience = audience
        self.heard = 0.0
        self._said = said
        self._subscription = bus.subscribe(audience.topic, **asked)
        self._tally = RowTally(scenario.name, audience.topic, f"s{number}", audience.label, role="subscriber")

    async def open(self) -> None:
        """Ask, and hear where everything stands, before anything is due."""
        await self._subscription.open()

    async def run(self, start: float) -> None:
        """Take what comes, until cancelled."""
        loop = asyncio.get_running_loop()
        self.heard = loop.time()
        async with aclosing(self._subscription.batches()) as batches:
            async for batch in batches:
                self.heard = loop.time()
                self._take(batch, self.heard - start)

    async def close(self) -> None:
        await self._subscription.close()

    @property
    def feed(self) -> str:
        """What it reads: the log, or a channel."""
        return self._subscription.feed

    def row(self) -> Row:
        """What it was handed, for the ledger."""
        counts = self._subscription.counts.values()
        self._tally.count(
            frames=sum(count.frames for count in counts),
            data_bytes=sum(count.data_bytes for count in counts),
            key_bytes=sum(count.key_bytes for count in counts),
            control_bytes=sum(count.control_bytes for count in counts),
            dictionary_bytes=self._subscription.dictionary_bytes,
            told_missing=sum(isinstance(notice, EventsMissed) for notice in self._subscription.notices),
        )
        return self._tally.row()

    def _take(self, batch: list[Event], now: float) -> None:
        """Latencies are those of events of this run; what stood there before it began is not counted."""
        late: tuple[list[float], list[float]] = ([], [])
        for event in batch:
            instant = self._said.of(event.identity)
            if instant is not None:
                late[event.virtual].append(max(0.0, now - instant))
        self._tally.count(events=len(late[0]) + len(late[1]))
        self._tally.latencies(late[False])
        self._tally.latencies(late[True], virtual=True)


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
    telling = asyncio.create_task(_report_progress(scenario, start, progress))
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


async def _report_progress(scenario: Scenario, start: float, progress: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        progress(min(1.0, max(0.0, (loop.time() - start) / scenario.duration)))
        await asyncio.sleep(0.25)


def _outcome(
    scenario: Scenario, seconds: float, emissions: list[Emission], listeners: Listeners, cpu: float
) -> ScenarioOutcome:
    whole = RowTally(scenario.name, role="run")
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
