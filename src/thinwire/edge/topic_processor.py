"""The work on one topic at one host: read its log where the last host stopped, process, store results, say how far."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace

from thinwire.brokers.protocol import Broker, LogReader, Stored
from thinwire.edge.edge_documents import EDGE_POSITIONS, EdgeTopic, Seen, edge_log, edge_subject
from thinwire.edge.edge_messages import Carried
from thinwire.edge.latency_report import Flow, Times
from thinwire.edge.result_log import EdgeLetters, EdgePosition, Outlet
from thinwire.edge.topic_worker import TopicWorker, WorkerOutcome
from thinwire.errors import CorruptFrame, PayloadTooLarge
from thinwire.topics.leases import Lease

LOOK = 0.2
"""seconds between two looks at whether to stop, where nothing comes"""
SAVE = 1.0
"""seconds between two positions that are stored"""


class TopicProcessor:
    """One topic, as long as its lease is this host's.

    source: the broker that has the topic's messages; home: the one that has everything else
    """

    def __init__(
        self, source: Broker, home: Broker, lease: Lease, document: EdgeTopic, worker: TopicWorker, letters: EdgeLetters
    ) -> None:
        self.document = document
        self.times, self.flow = Times(), Flow()
        self.done = self.failed = self.repeated = self.backlog = 0
        self._source, self._home, self._lease = source, home, lease
        self._worker, self._letters = worker, letters
        self._outlet = Outlet(home, document.topic, document.output)
        self._position: EdgePosition | None = None
        self._storing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._waiting: float | None = None

    @property
    def log(self) -> str:
        return edge_log(self.document.topic, near=self.document.near)

    def stop(self) -> None:
        """End behind the message that is being processed."""
        self._stopping.set()

    def seen(self, now: float) -> Seen:
        """How it goes."""
        interval, rate = self.times.interval(now), self.flow.rate
        p90 = self.times.p90(now, self._waiting)
        return Seen(p90, rate, interval, self.backlog, self.done, self.failed, self.repeated, self.flow.span)

    async def look(self, now: float) -> None:
        """See how much the log has grown, and what of it is left to do."""
        last = (await self._source.span(self.log)).last
        self.flow.saw(last, now)
        self.backlog = max(0, last - self._position.offset) if self._position is not None else 0

    async def run(self) -> None:
        """Until it is told to stop; `Superseded` where another host has the topic."""
        reader = await self._open()
        try:
            await self._worker.start()
            await self._process(reader)
            await self._wait_until_stored()
            await self._position_of().store()
        finally:
            if self._storing is not None:
                self._storing.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await self._storing
            await self._worker.close()
            await reader.close()

    async def _open(self) -> LogReader:
        pattern = edge_subject(self.document.topic, near=self.document.near)
        await self._source.open_log(self.log, [pattern])
        bucket = await self._home.bucket(EDGE_POSITIONS)
        self._position = EdgePosition(bucket, self.document.topic, self._lease.epoch)
        await self._position.open(await self._outlet.open())
        first = self._position.offset + 1
        return await self._source.read(self.log, first=first, limit=self.document.queue)

    async def _process(self, reader: LogReader) -> None:
        saved = time.monotonic()
        while not self._stopping.is_set():
            stored = await reader.next(timeout=LOOK)
            if stored is not None:
                await self._take(stored, time.time())
                reader.done(stored.offset)
            if stored is None or time.monotonic() - saved >= SAVE:
                await self._wait_until_stored()
                await self._position_of().store()
                saved = time.monotonic()

    async def _take(self, stored: Stored, arrival: float) -> None:
        """Process one message while the result of the one before is being stored."""
        message, outcome = _read(stored, arrival)
        if outcome is None and self._outlet.has(message.id):
            self.repeated += 1
            await self._wait_until_stored()
            self._position_of().offset = stored.offset
            return
        if outcome is None:
            outcome = await self._worked(message, arrival)
        self._outlet.remember(message.id)
        await self._wait_until_stored()
        self._storing = asyncio.create_task(self._conclude(stored.offset, message, outcome))

    async def _worked(self, message: Carried, arrival: float) -> WorkerOutcome:
        self._waiting = message.due
        outcome = await self._worker.process(message.body, self.document.seconds)
        self._waiting = None
        self.times.observe(message.due, arrival, outcome.start, outcome.end, outcome.cpu)
        return outcome

    async def _conclude(self, offset: int, message: Carried, outcome: WorkerOutcome) -> None:
        """Store what became of a message; only then it counts as done.

        Where messages stay at their host so do their ids, for they may name somebody.
        """
        identity = f"offset-{offset}" if self.document.near else message.id
        try:
            if outcome.kind == "result":
                await self._outlet.store(Carried(message.due, identity, outcome.body, self._lease.epoch, offset))
        except PayloadTooLarge as problem:
            outcome = replace(outcome, kind="garbage", body=str(problem).encode())
        if outcome.failed:
            await self._letters.keep(self.document, offset, identity, message.body, outcome)
        self.failed += outcome.failed
        self.done += not outcome.failed
        self._position_of().offset = offset

    async def _wait_until_stored(self) -> None:
        """Wait until what was done is stored."""
        task, self._storing = self._storing, None
        if task is not None:
            await task

    def _position_of(self) -> EdgePosition:
        assert self._position is not None
        return self._position


def _read(stored: Stored, now: float) -> tuple[Carried, WorkerOutcome | None]:
    """The message; where it is none, something that stands for it and what became of it."""
    try:
        return Carried.decode(stored.payload), None
    except CorruptFrame as problem:
        stands = Carried(now, f"offset-{stored.offset}", stored.payload)
        return stands, WorkerOutcome("garbage", str(problem).encode(), now, now, 0.0)
