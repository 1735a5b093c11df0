"""The leg of the demonstration that goes over Spark: the stream lands in a table, which is compared in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType

from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.proxy import Proxy
from thinwire.client import Bus
from thinwire.demo.demo_scenario import GUESTS
from thinwire.demo.demo_scenario_plants import TOPIC
from thinwire.demo.spark_table import COLUMNS, differing, heard_of
from thinwire.demo.spark_table_ingesting import Ingest
from thinwire.demo.view_model_landings import Landing
from thinwire.ledger import Row

LOOSEST = GUESTS[0]
"""the table asks for what the first guest asks for, so that it makes the log no finer; it reads the log all the same"""
LANDING = 300.0
"""seconds in which everything must be in the table: on a busy machine Spark may still be starting"""
READING = 60.0


class SparkLeg:
    """Spark behind a wire of its own; use it with `async with`.

    run: the name of the run in the ledger; port: of the broker
    """

    def __init__(self, run: str, port: int) -> None:
        self.run = run
        self._wire = Proxy(LOOPBACK, port)
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> SparkLeg:
        try:
            await self._opened.enter_async_context(self._wire)
            ingest = Ingest(f"nats://{LOOPBACK}:{self._wire.port}", LOOSEST)
            self._ingest = await self._opened.enter_async_context(ingest)
        except BaseException:
            await self._opened.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    async def look(self) -> Landing:
        """What has landed so far."""
        rows = await self._ingest.look()
        links = self._wire.to_broker + self._wire.from_broker
        stored = self._ingest.table.stored_bytes
        row = Row(self.run, TOPIC, "log", LOOSEST.name, "table", events=rows, link_bytes=links, stored_bytes=stored)
        return Landing(row, self._wire.from_broker, self._ingest.first, problem=self._ingest.problem)

    async def end(self, bus: Bus, last: Mapping[str, int], stopping: asyncio.Event) -> Landing | None:
        """Wait until everything has landed, and compare it with what a subscriber of the log is handed.

        None where somebody had seen enough before the first rows were there: there is nothing to compare then.

        last: the number of the last event of each plant
        """
        published = sum(last.values())
        seconds = await self._ingest.land(published, LANDING, stopping)
        landing = replace(await self.look(), seconds=seconds)
        if not landing.rows and not landing.problem:
            return None
        heard = await heard_of(bus, last, READING)
        return landing.compared(published, heard.num_rows, differing(self._ingest.table.read(COLUMNS), heard))
