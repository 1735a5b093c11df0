"""One publisher of a scenario: events go out when they are due, whatever has become of those before (open loop)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

from thinwire.client import Bus, TopicPublisher
from thinwire.errors import ScenarioError
from thinwire.ledger import Histogram, Row, Tally
from thinwire.schema import flatten
from thinwire_lab.workload.random_rows_randomness import Floats
from thinwire_lab.workload.scenarios.scenario import Scenario, TopicScene
from thinwire_lab.workload.scenarios.scenario_events import events_of, schema_of, shape_at
from thinwire_lab.workload.scenarios.scenario_run import Instants

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
        self._tally = Tally(scenario.name, scene.name, self.name, role="publisher")
        self._shape, self._schema = 1, schema_of(scene)
        self._out: TopicPublisher | None = None

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
            self._said.note(self.name, self._out.link.incarnation, self._source(event), instant)
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

    def _count(self, out: TopicPublisher) -> None:
        counts, link = out.counts, out.link
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
