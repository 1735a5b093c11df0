"""Runs a scenario on a broker.

All publishers and subscribers are connected first. Publishers then send each event at its due time, independently of
earlier events (open loop). At the end the run waits for events in flight. Latency is measured from the due time of an
event, not from its publication, so that it includes the delay of a publisher that falls behind.

>>> due_times = DueTimes()
>>> due_times.add("p1", 1, ("T1",), 0.25); due_times.add("p1", 1, ("T1",), 0.75)
>>> due_times.find(("p1", 1, ("T1",), 2)), due_times.find(("p9", 1, ("T1",), 2))
(0.75, None)
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from itertools import islice
from typing import Any

from thinwire import Bus, Publisher
from thinwire.codec import EventsMissed
from thinwire.ledger import Histogram, Row, RowTally
from thinwire.schema import Event, flatten
from thinwire.schema.event import Identity
from thinwire_lab.errors import ScenarioError
from thinwire_lab.live.background_tasks import cancel_tasks, wait_unless_failed
from thinwire_lab.workload.random_rows import Floats
from thinwire_lab.workload.scenarios.scenario import Audience, Scenario, ScenarioTopic
from thinwire_lab.workload.scenarios.scenario_events import (
    events_of,
    schema_of,
    schema_version_at,
    subscriber_predicates,
)
from thinwire_lab.workload.scenarios.scenario_outcome import ScenarioOutcome, audience_outcome, topic_outcome

Source = tuple[Any, ...]


class DueTimes:
    """Due times of events in seconds from the start of a run, by publisher, incarnation, source and ordinal."""

    def __init__(self) -> None:
        self._times: defaultdict[tuple[str, int, Source], array[float]] = defaultdict(lambda: array("d"))

    def add(self, publisher: str, incarnation: int, source: Source, due_time: float) -> None:
        """Add the due time of the next event of a source."""
        self._times[publisher, incarnation, source].append(due_time)

    def find(self, identity: Identity) -> float | None:
        """Return the due time of an event; None if it is not an event of this run."""
        publisher, incarnation, source, ordinal = identity
        times = self._times.get((publisher, incarnation, source))
        return times[ordinal - 1] if times is not None and 0 < ordinal <= len(times) else None


MIN_SLEEP = 0.0005
"""minimum sleep of a publisher in seconds; events that become due meanwhile are sent together"""


class ScenarioPublisher:
    """One publisher of a topic.

    instants: due times of its events in seconds from the start; due_times: those of all publishers
    late: delays between the due times of events and their publication, in seconds
    """

    def __init__(
        self, bus: Bus, scenario: Scenario, topic: ScenarioTopic, index: int, instants: Floats, due_times: DueTimes
    ) -> None:
        self.topic = topic
        self.name = f"{scenario.name}-{index}"
        self.late = Histogram()
        self._bus = bus
        self._scenario = scenario
        self._instants = instants
        self._due_times = due_times
        self._events: Iterator[dict[str, Any]] = events_of(topic, instants, scenario.duration, scenario.seed, index)
        self._tally = RowTally(scenario.name, topic.name, self.name, role="publisher")
        self._version, self._schema = 1, schema_of(topic)
        self._publisher: Publisher | None = None

    async def open(self) -> None:
        self._publisher = self._bus.publisher(self.topic.name, name=self.name)
        await self._publisher.__aenter__()

    async def run(self, start: float) -> None:
        """Publish all events at their due times. `start` is the loop time of the start of the run."""
        loop, sent = asyncio.get_running_loop(), 0
        while sent < len(self._instants):
            now = loop.time() - start
            due = int(self._instants.searchsorted(now, side="right"))
            if due == sent:
                await asyncio.sleep(max(MIN_SLEEP, self._instants[sent] - now))
                continue
            sent = await self._send(sent, due, loop.time() - start)
        await self.close()

    async def close(self) -> None:
        """Flush unsent events and close the publisher."""
        if self._publisher is not None:
            publisher, self._publisher = self._publisher, None
            await publisher.flush()
            self._count(publisher)
            await publisher.__aexit__(None, None, None)

    def row(self) -> Row:
        return self._tally.row()

    async def _send(self, first: int, end: int, now: float) -> int:
        """Publish the events from `first` up to `end` or a schema change. Return the index of the next event."""
        versions = [self._version_of(position) for position in range(first, end)]
        if versions[0] != self._version:
            await self._change_to(versions[0])
        count = next((index for index, version in enumerate(versions) if version != self._version), len(versions))
        assert self._publisher is not None
        events, event_times = list(islice(self._events, count)), self._instants[first : first + count].tolist()
        for event, due_time in zip(events, event_times, strict=True):
            self._due_times.add(self.name, self._publisher.encoder.incarnation, self._source(event), due_time)
        self.late.add_many([max(0.0, now - due_time) for due_time in event_times])
        if await self._publisher.publish_all(events) != count:
            raise ScenarioError(
                "events do not match their schema; see the dead letters", field=f"topics.{self.topic.name}"
            )
        return first + count

    def _version_of(self, position: int) -> int:
        return schema_version_at(self.topic, float(self._instants[position]), self._scenario.duration)

    async def _change_to(self, version: int) -> None:
        """Register another version of the schema, and continue with another incarnation of the publisher."""
        await self.close()
        self._version, self._schema = version, schema_of(self.topic, version)
        await self._bus.register(self._schema, **self.topic.settings)
        await self.open()

    def _source(self, event: dict[str, Any]) -> tuple[Any, ...]:
        flat = flatten(event, self._schema) if self._schema.nested else event
        return tuple(flat[p.name] for p in self._schema.dimensions)

    def _count(self, publisher: Publisher) -> None:
        counts, encoder = publisher.counts, publisher.encoder
        self._tally.count(
            events=counts.events,
            frames=counts.frames,
            messages=publisher.messages,
            rejected=counts.rejected,
            data_bytes=counts.data_bytes,
            key_bytes=counts.key_bytes,
            control_bytes=counts.control_bytes,
            suppressed_events=encoder.suppressed_events,
            suppressed_values=max(0, encoder.suppressed_values),
        )


class ScenarioSubscriber:
    """One subscriber of an audience.

    last_received: loop time of the last event
    """

    def __init__(
        self,
        bus: Bus,
        scenario: Scenario,
        audience: Audience,
        options: Mapping[str, Any],
        number: int,
        due_times: DueTimes,
    ) -> None:
        self.audience = audience
        self.last_received = 0.0
        self._due_times = due_times
        self._subscription = bus.subscribe(audience.topic, **options)
        self._tally = RowTally(scenario.name, audience.topic, f"s{number}", audience.label, role="subscriber")

    async def open(self) -> None:
        await self._subscription.open()

    async def run(self, start: float) -> None:
        """Receive events until cancelled."""
        loop = asyncio.get_running_loop()
        self.last_received = loop.time()
        async with aclosing(self._subscription.batches()) as batches:
            async for batch in batches:
                self.last_received = loop.time()
                self._count_events(batch, self.last_received - start)

    async def close(self) -> None:
        await self._subscription.close()

    @property
    def reads_channel(self) -> bool:
        return self._subscription.feed == "channel"

    def row(self) -> Row:
        counts = self._subscription.counts.values()
        self._tally.count(
            frames=sum(item.frames for item in counts),
            data_bytes=sum(item.data_bytes for item in counts),
            key_bytes=sum(item.key_bytes for item in counts),
            control_bytes=sum(item.control_bytes for item in counts),
            dictionary_bytes=self._subscription.dictionary_bytes,
            told_missing=sum(isinstance(notice, EventsMissed) for notice in self._subscription.notices),
        )
        return self._tally.row()

    def _count_events(self, batch: list[Event], now: float) -> None:
        """Count the events of this run and their latencies."""
        sent: list[float] = []
        virtual: list[float] = []
        for event in batch:
            due_time = self._due_times.find(event.identity)
            if due_time is not None:
                (virtual if event.virtual else sent).append(max(0.0, now - due_time))
        self._tally.count(events=len(sent) + len(virtual))
        self._tally.latencies(sent)
        self._tally.latencies(virtual, virtual=True)


LEAD = 0.2
"""seconds between the last subscription and the first event"""
DRAIN_TIMEOUT = 60.0
"""maximum seconds for events in flight at the end"""

Audiences = list[tuple[Audience, list[ScenarioSubscriber]]]


async def run_scenario(scenario: Scenario, connect: Callable[[], Bus], *, shared: bool = False) -> ScenarioOutcome:
    """Publish and subscribe as the scenario defines.

    connect: returns a bus that is not open
    shared: whether publishers and subscribers share a bus, required if each bus starts its own broker
    """
    due_times, cpu_start = DueTimes(), time.process_time()
    async with AsyncExitStack() as stack:
        publisher_bus = await stack.enter_async_context(connect())
        subscriber_bus = publisher_bus if shared else await stack.enter_async_context(connect())
        for topic in scenario.topics:
            await publisher_bus.register(schema_of(topic), **topic.settings)
        publishers = await _open_publishers(publisher_bus, scenario, due_times, stack)
        audiences = await _open_subscribers(subscriber_bus, scenario, due_times, stack)
        start = asyncio.get_running_loop().time() + LEAD
        await _publish_and_receive(publishers, [s for _, group in audiences for s in group], start, scenario.settle)
        seconds = asyncio.get_running_loop().time() - start
        outcome = _outcome(scenario, seconds, publishers, audiences, time.process_time() - cpu_start)
    return outcome


async def _open_publishers(
    bus: Bus, scenario: Scenario, due_times: DueTimes, stack: AsyncExitStack
) -> list[ScenarioPublisher]:
    publishers = []
    for topic in scenario.topics:
        instants = topic.rate.instants(scenario.duration, topic.arrivals, scenario.seed)
        for index in range(topic.publishers):
            publisher = ScenarioPublisher(bus, scenario, topic, index, instants[index :: topic.publishers], due_times)
            await publisher.open()
            stack.push_async_callback(publisher.close)
            publishers.append(publisher)
    return publishers


async def _open_subscribers(bus: Bus, scenario: Scenario, due_times: DueTimes, stack: AsyncExitStack) -> Audiences:
    audiences: Audiences = []
    number = 0
    for audience in scenario.audiences:
        predicates = subscriber_predicates(audience.count, scenario.seed) if audience.interests else []
        group = []
        for index in range(audience.count):
            options = {**audience.options, "where": predicates[index]} if predicates else audience.options
            subscriber = ScenarioSubscriber(bus, scenario, audience, options, number, due_times)
            await subscriber.open()
            stack.push_async_callback(subscriber.close)
            group.append(subscriber)
            number += 1
        audiences.append((audience, group))
    return audiences


async def _publish_and_receive(
    publishers: list[ScenarioPublisher], subscribers: list[ScenarioSubscriber], start: float, settle: float
) -> None:
    receiving = [asyncio.create_task(subscriber.run(start)) for subscriber in subscribers]
    sending = [asyncio.create_task(publisher.run(start)) for publisher in publishers]
    try:
        await wait_unless_failed(asyncio.gather(*sending), receiving)
        if subscribers:
            await wait_unless_failed(_wait_until_quiet(subscribers, settle), receiving)
    finally:
        await cancel_tasks([*sending, *receiving])


async def _wait_until_quiet(subscribers: list[ScenarioSubscriber], settle: float) -> None:
    """Wait until no subscriber has received an event for the settle time."""
    loop = asyncio.get_running_loop()
    ended = loop.time()
    while (now := loop.time()) - ended < DRAIN_TIMEOUT:
        if now - max(ended, *(subscriber.last_received for subscriber in subscribers)) >= settle:
            break
        await asyncio.sleep(0.05)


def _outcome(
    scenario: Scenario, seconds: float, publishers: list[ScenarioPublisher], audiences: Audiences, cpu: float
) -> ScenarioOutcome:
    by_topic = {topic.name: [p for p in publishers if p.topic.name == topic.name] for topic in scenario.topics}
    published = {name: [publisher.row() for publisher in group] for name, group in by_topic.items()}
    received = [([s.row() for s in group], sum(s.reads_channel for s in group)) for _, group in audiences]
    return ScenarioOutcome(
        scenario.name,
        scenario.seed,
        seconds,
        tuple(topic_outcome(name, rows, [p.late for p in by_topic[name]]) for name, rows in published.items()),
        tuple(audience_outcome(rows, on_channels) for rows, on_channels in received),
        (
            *(row for rows in published.values() for row in rows),
            *(row for rows, _ in received for row in rows),
            Row(scenario.name, role="run", cpu_seconds={"run": cpu}),
        ),
    )
