"""Processes one topic at one host: reads its log after the last processed message and stores results and position."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace

from thinwire.brokers.protocol import Broker, LogReader, StoredMessage
from thinwire.edge.edge_documents import EdgeTopic, TopicMeasurements, edge_log, edge_subject
from thinwire.edge.edge_messages import EdgeMessage
from thinwire.edge.latency_report import LatencyMeter, RateMeter
from thinwire.edge.result_log import EdgePosition, ResultWriter
from thinwire.edge.topic_worker import TopicWorker, WorkerOutcome
from thinwire.errors import CorruptFrame, PayloadTooLarge
from thinwire.topics.dead_letters import DeadLetters
from thinwire.topics.leases import Lease

POLL_INTERVAL = 0.2
"""seconds between two checks for `stop` without messages"""
SAVE_INTERVAL = 1.0
"""seconds between two stored positions"""


class TopicProcessor:
    """The work on one topic under a lease.

    source: broker with the input log
    hub: broker with results, positions and leases
    """

    def __init__(
        self, source: Broker, hub: Broker, lease: Lease, document: EdgeTopic, worker: TopicWorker, letters: DeadLetters
    ) -> None:
        self.document = document
        self.log = edge_log(document.topic, near=document.near)
        self.times, self.rate = LatencyMeter(), RateMeter()
        self.done = self.failed = self.repeated = self.backlog = 0
        self._source, self._lease = source, lease
        self._worker, self._letters = worker, letters
        self._results = ResultWriter(hub, document.topic, document.output)
        self._position = EdgePosition(hub, document.topic, lease.epoch)
        self._storing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._current_due: float | None = None

    def stop(self) -> None:
        """End `run` after the current message."""
        self._stopping.set()

    def measurements(self, now: float) -> TopicMeasurements:
        return TopicMeasurements(
            p90=self.times.p90(now, self._current_due),
            rate=self.rate.rate,
            interval=self.times.interval(now),
            backlog=self.backlog,
            done=self.done,
            failed=self.failed,
            repeated=self.repeated,
            span=self.rate.span,
        )

    async def sample_log(self, now: float) -> None:
        """Sample the end of the input log for rate and backlog."""
        last = (await self._source.span(self.log)).last
        self.rate.observe(last, now)
        self.backlog = max(0, last - self._position.offset) if self._position.is_open else 0

    async def run(self) -> None:
        """Process until stopped. Raises `Superseded` if another host has written."""
        reader = await self._open()
        try:
            await self._worker.start()
            await self._process_all(reader)
            await self._wait_until_stored()
            await self._position.store()
        finally:
            if self._storing is not None:
                self._storing.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await self._storing
            await self._worker.close()
            await reader.close()

    async def _open(self) -> LogReader:
        pattern = edge_subject(self.document.topic, near=self.document.near)
        await self._source.ensure_log(self.log, [pattern])
        await self._position.open(await self._results.open())
        first = self._position.offset + 1
        return await self._source.read(self.log, first=first, max_unacknowledged=self.document.queue)

    async def _process_all(self, reader: LogReader) -> None:
        saved = time.monotonic()
        while not self._stopping.is_set():
            stored = await reader.next(timeout=POLL_INTERVAL)
            if stored is not None:
                await self._process(stored)
                reader.done(stored.offset)
            if stored is None or time.monotonic() - saved >= SAVE_INTERVAL:
                await self._wait_until_stored()
                await self._position.store()
                saved = time.monotonic()

    async def _process(self, stored: StoredMessage) -> None:
        """Process one message while the result of the previous one is being stored."""
        message, outcome = _read(stored, time.time())
        if outcome is None and self._results.has_processed(message.id):
            self.repeated += 1
            await self._wait_until_stored()
            self._position.offset = stored.offset
            return
        if outcome is None:
            outcome = await self._run_function(message)
        self._results.remember(message.id)
        await self._wait_until_stored()
        self._storing = asyncio.create_task(self._store(stored.offset, message, outcome))

    async def _run_function(self, message: EdgeMessage) -> WorkerOutcome:
        self._current_due = message.due
        outcome = await self._worker.process(message.body, self.document.seconds)
        self._current_due = None
        self.times.observe(message.due, outcome.end, outcome.cpu)
        return outcome

    async def _store(self, offset: int, message: EdgeMessage, outcome: WorkerOutcome) -> None:
        """Store the result or a dead letter, then advance the position.

        If messages stay at their host, so do their ids, which may contain personal data.
        """
        identity = f"offset-{offset}" if self.document.near else message.id
        try:
            if outcome.kind == "result":
                result = EdgeMessage(message.due, identity, outcome.body, self._lease.epoch, offset)
                await self._results.store(result)
        except PayloadTooLarge as problem:
            outcome = replace(outcome, kind="garbage", body=str(problem).encode())
        if outcome.has_failed:
            await self._store_dead_letter(offset, identity, message.body, outcome)
        self.failed += outcome.has_failed
        self.done += not outcome.has_failed
        self._position.offset = offset

    async def _store_dead_letter(self, offset: int, identity: str, body: bytes, outcome: WorkerOutcome) -> None:
        """Store a message that could not be processed; neither message nor reason if it must stay at its host."""
        near = self.document.near
        await self._letters.store(
            self.document.topic,
            reason="" if near else outcome.body.decode("utf-8", "replace"),
            error=outcome.kind,
            event="stays at its host" if near else body.decode("utf-8", "replace"),
            offset=offset,
            id=identity,
        )

    async def _wait_until_stored(self) -> None:
        task, self._storing = self._storing, None
        if task is not None:
            await task


def _read(stored: StoredMessage, now: float) -> tuple[EdgeMessage, WorkerOutcome | None]:
    """Decode a message; for an invalid one return a substitute and its outcome."""
    try:
        return EdgeMessage.decode(stored.payload), None
    except CorruptFrame as problem:
        substitute = EdgeMessage(now, f"offset-{stored.offset}", stored.payload)
        return substitute, WorkerOutcome("garbage", str(problem).encode(), now, now, 0.0)
