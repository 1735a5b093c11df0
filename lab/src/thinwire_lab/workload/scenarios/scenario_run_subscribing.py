"""One subscriber of a scenario: how many events came, how late, and what it was told to be missing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from thinwire.client import Bus
from thinwire.codec import Missed
from thinwire.ledger import Row, Tally
from thinwire.schema import Event
from thinwire_lab.workload.scenarios.scenario import Audience, Scenario
from thinwire_lab.workload.scenarios.scenario_run import Instants


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
        self._tally = Tally(scenario.name, audience.topic, f"s{number}", audience.label, role="subscriber")

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
            told_missing=sum(isinstance(notice, Missed) for notice in self._subscription.notices),
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
