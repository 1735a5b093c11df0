"""The evaluation of one watch under a lease: read topic logs, evaluate, write the log of the watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from thinwire.brokers.protocol import NOTHING, Broker
from thinwire.clock import Clock
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import Conflict, RegistryError, ServiceUnavailable, ThinwireError, TransportError, WatchFailed
from thinwire.topics.leases import Lease
from thinwire.topics.names import WATCHES, alive_subject, evaluator_subject
from thinwire.topics.watches.watch_documents import WatchDocument, WatcherDocument, failed_key, watch_key, watcher_key
from thinwire.topics.watches.watch_log import WatchLog
from thinwire.topics.watches.watch_pipeline import WatchPipeline
from thinwire.topics.watches.watch_quantities import ResolvedCondition, resolve_live

POLL_INTERVAL = 0.5
"""seconds between two checks whether the watch has watchers"""
MAX_MISSED_PROBES = 3
"""consecutive probes without an answer after which a watcher is removed"""
MAX_REASON = 4_096


@dataclass(frozen=True)
class WatchSettings:
    """Settings of the watch service.

    grace: seconds until a watch without watchers is deleted
    probe_interval: seconds between two probes of the watchers
    state_records, state_seconds: a state record is written after this many records or seconds, whichever comes first
    """

    grace: float = 10.0
    probe_interval: float = 2.0
    state_records: int = 256
    state_seconds: float = 30.0


class WatchWork:
    """Evaluates one watch. `run` is called once."""

    def __init__(
        self, broker: Broker, clock: Clock, lease: Lease, settings: WatchSettings, watchers: Collection[WatcherDocument]
    ) -> None:
        self.watch = lease.topic
        self.lease = lease
        self.settings = settings
        self._broker = broker
        self._clock = clock
        self._watchers = watchers
        self._missed_probes: dict[str, int] = {}
        self._stopping = False
        self._log = WatchLog(broker, self.watch)

    def update_watchers(self, watchers: Collection[WatcherDocument]) -> None:
        """Set the current watchers."""
        self._watchers = watchers

    def stop(self) -> None:
        """End `run` after the state is stored."""
        self._stopping = True

    async def run(self) -> None:
        """Evaluate until there are no watchers or `stop` is called.

        Raises `Superseded` if another evaluator has written. Other errors are also stored for the watchers to read.
        """
        await asyncio.to_thread(warm_up)
        try:
            document = await self._read_document()
            if document is None:
                return
            await self._evaluate(document, await self._resolve(document))
        except TransportError:
            raise
        except ThinwireError as problem:
            await self._report_failure(problem)
            raise

    async def _report_failure(self, problem: ThinwireError) -> None:
        """Store the reason for the watchers; delete the watch if there are none."""
        bucket = await self._broker.bucket(WATCHES)
        await bucket.put(failed_key(self.watch), str(problem)[:MAX_REASON].encode())
        await self._probe(max_missed=1)
        if not await bucket.entries(watcher_key(self.watch)):
            await bucket.delete(watch_key(self.watch))
            await bucket.delete(failed_key(self.watch))

    async def _read_document(self) -> WatchDocument | None:
        entry = await (await self._broker.bucket(WATCHES)).get(watch_key(self.watch))
        return WatchDocument.decode(entry.value) if entry is not None and entry.value is not None else None

    async def _resolve(self, document: WatchDocument) -> ResolvedCondition:
        resolved = await resolve_live(self._broker, document.expression)
        if resolved.condition.fingerprint != document.fingerprint:
            raise WatchFailed("schemas changed since the watch was created: create it again", watch=self.watch)
        return resolved

    async def _evaluate(self, document: WatchDocument, resolved: ResolvedCondition) -> None:
        identity = f"w{self.watch}"
        pipeline = WatchPipeline(self._broker, self._clock, resolved, document.options, identity)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(pipeline.close)
            await self._log.open()
            progress = await self._log.recover(document.fingerprint)
            await pipeline.begin(progress)
            if progress is None:
                await self._log.write_state(pipeline.take_progress())
            await (await self._broker.bucket(WATCHES)).delete(failed_key(self.watch))
            if await self._serve(pipeline, document):
                await self._log.write_state(pipeline.take_progress())
            else:
                await self._clean_up(pipeline)

    async def _serve(self, pipeline: WatchPipeline, document: WatchDocument) -> bool:
        """Evaluate until stopped (True) or until the watch document is deleted (False)."""
        while True:
            listener = await self._broker.listen(evaluator_subject(self.watch), self._answer_status)
            try:
                stopped = await self._process(pipeline)
            finally:
                # A watcher registers before it requests an answer. Without a listener no other watcher gets one.
                await listener.close()
            if stopped:
                return True
            if await self._delete_document(document):
                return False

    async def _process(self, pipeline: WatchPipeline) -> bool:
        """Evaluate until stopped (True) or without watchers for the grace period (False)."""
        loop = asyncio.get_running_loop()
        last_state = last_watched = last_probe = loop.time()
        while not self._stopping:
            await self._log.write_step(await pipeline.next(POLL_INTERVAL))
            now = loop.time()
            is_due = pipeline.has_unsaved_input and now - last_state >= self.settings.state_seconds
            if self._log.records_since_state >= self.settings.state_records or is_due:
                last_state = now
                await self._log.write_state(pipeline.take_progress())
            if now - last_probe >= self.settings.probe_interval:
                last_probe = now
                await self._probe()
            if self._watchers:
                last_watched = now
            elif now - last_watched >= self.settings.grace:
                return False
        return True

    async def _probe(self, max_missed: int = MAX_MISSED_PROBES) -> None:
        """Remove watchers that do not answer probes. Durable watchers need not answer."""
        probed = [watcher for watcher in self._watchers if not watcher.durable]
        answers = await asyncio.gather(*(self._is_alive(watcher.identity) for watcher in probed))
        bucket = await self._broker.bucket(WATCHES)
        for watcher, is_alive in zip(probed, answers, strict=True):
            missed = 0 if is_alive else self._missed_probes.get(watcher.identity, 0) + 1
            self._missed_probes[watcher.identity] = missed
            if missed >= max_missed:
                with suppress(TransportError):
                    await bucket.delete(watcher.key)

    async def _is_alive(self, identity: str) -> bool:
        try:
            await self._broker.request(alive_subject(identity), b"", timeout=1.0)
        except ServiceUnavailable:
            return False
        except TransportError:
            return True  # the broker is unavailable, which does not mean that the watcher is gone
        return True

    async def _delete_document(self, document: WatchDocument) -> bool:
        """Delete the watch document; restore it and return False if a watcher registered in the meantime."""
        bucket = await self._broker.bucket(WATCHES)
        await bucket.delete(document.key)
        for entry in await bucket.entries(watcher_key(self.watch)):
            with suppress(RegistryError):
                if entry.value is not None and WatcherDocument.decode(entry.value):
                    with suppress(Conflict):  # the watcher may have stored the document again itself
                        await bucket.put(document.key, document.encode(), revision=NOTHING)
                    return False
        return True

    async def _clean_up(self, pipeline: WatchPipeline) -> None:
        """Remove the demands, the log and the failure document of the watch."""
        await pipeline.demands.end()
        await self._log.delete()
        await (await self._broker.bucket(WATCHES)).delete(failed_key(self.watch))

    async def _answer_status(self, subject: str, payload: bytes) -> bytes | None:
        """Answer with the evaluator's name, its epoch and the offset of the last record."""
        holder = {"name": self.lease.document.holder, "epoch": self.lease.epoch}
        return json.dumps({**holder, "last": self._log.last}).encode()
