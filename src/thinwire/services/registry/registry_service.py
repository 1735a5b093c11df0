"""The registry as a service at a broker: follows the documents, writes configurations and probes subscriptions.

The service has no state beside the documents. It can be killed at any time, and several can run at once: they reach the
same decisions, and the broker accepts the first of two conflicting writes. Without a running service, publishers keep
their configuration.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from thinwire.brokers.protocol import Broker, Bucket, BucketEntry, Handler
from thinwire.clock import Clock, WallClock
from thinwire.errors import Conflict, ServiceUnavailable, TransportClosed, TransportError
from thinwire.services.registry.registry import Registry, Write
from thinwire.services.registry.registry_descriptions import count_documents
from thinwire.services.service_base import ServiceBase
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler
from thinwire.topics.names import REGISTRY, alive_subject, service_subject
from thinwire.topics.topic_documents import SubscriptionDocument

PROBE_TIMEOUT = 2.0
"""seconds that a subscriber has to answer a probe"""
MAX_PROBES = 32
"""concurrent probes"""
RETRY_DELAY = 1.0
"""seconds between attempts to reach the broker"""
CHECK_INTERVAL = 0.25
"""seconds between two checks of probes and grace periods"""
DECISION_PAUSE = 4.0
"""pause after a decision, as a multiple of its duration; at most CHECK_INTERVAL"""

_log = logging.getLogger("thinwire.registry")


class RegistryService(ServiceBase):
    """One registry at one connection. Run `run` as a task; cancel the task to stop it.

    grace: seconds that a removed subscription counts
    probe_every: seconds between two probes of a subscription
    """

    def __init__(
        self, broker: Broker, clock: Clock | None = None, *, grace: float = 10.0, probe_every: float = 5.0
    ) -> None:
        super().__init__(broker, "registry", BucketFollower(broker, {REGISTRY: self._registry_handler}, _log), _log)
        self.clock = clock or WallClock()
        self.grace = grace
        self.probe_every = probe_every
        self.registry = self._new_registry()
        self._bucket: Bucket | None = None
        self._reported: dict[str, str] = {}

    def _tasks(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {"decides": self._decide(), "probes": self._probe()}

    def _handlers(self) -> Mapping[str, Handler]:
        return {service_subject("ping"): self._on_ping}

    def _new_registry(self) -> Registry:
        return Registry(grace=self.grace, probe_every=self.probe_every)

    def _registry_handler(self) -> BucketHandler:
        registry = self._new_registry()

        def on_complete() -> None:
            self.registry = registry
            self._initialized.set()

        return BucketHandler(lambda entry: registry.apply(entry, self.clock.now()), on_complete)

    async def _decide(self) -> None:
        """Write configurations when documents change and when grace periods end."""
        await self._initialized.wait()
        loop = asyncio.get_running_loop()
        while True:
            self._follower.changed.clear()
            started = loop.time()
            writes = self.registry.decide(self.clock.now())
            duration = loop.time() - started
            for write in writes:
                await self._write(write)
            self._report()
            await asyncio.sleep(min(CHECK_INTERVAL, DECISION_PAUSE * duration))  # gathers further changes of a burst
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL):
                    await self._follower.changed.wait()

    async def _write(self, write: Write) -> None:
        try:
            if self._bucket is None:
                self._bucket = await self.broker.bucket(REGISTRY)
            if write.value is None:
                await self._bucket.delete(write.key, revision=write.revision)
                _log.info("removed %s: the subscriber does not answer probes", write.key)
                return
            revision = await self._bucket.put(write.key, write.value, revision=write.revision)
        except Conflict:
            return  # the bucket watch delivers the other write, and the next decision includes it
        except TransportClosed:
            raise
        except TransportError as problem:
            _log.warning("cannot write %s: %s", write.key, problem)
            await asyncio.sleep(RETRY_DELAY)
            return
        self.registry.apply(BucketEntry(write.key, write.value, revision), self.clock.now())

    def _report(self) -> None:
        """Log each problem once."""
        problems = self.registry.problems()
        for key, sentence in problems.items():
            if self._reported.get(key) != sentence:
                _log.warning("ignored: %s", sentence if sentence.startswith(key) else f"{key}: {sentence}")
        self._reported = problems

    async def _probe(self) -> None:
        await self._initialized.wait()
        limit = asyncio.Semaphore(MAX_PROBES)
        while True:
            due = self.registry.take_due_probes(self.clock.now())
            await asyncio.gather(*(self._probe_one(document, limit) for document in due))
            await asyncio.sleep(CHECK_INTERVAL)

    async def _probe_one(self, document: SubscriptionDocument, limit: asyncio.Semaphore) -> None:
        async with limit:
            try:
                await self.broker.request(alive_subject(document.identity), b"", timeout=PROBE_TIMEOUT)
                self.registry.record_probe(document, True)
            except ServiceUnavailable:
                self.registry.record_probe(document, False)
                self._follower.changed.set()
            except TransportClosed:
                raise
            except TransportError as problem:
                _log.debug("cannot probe %s: %s", document.key, problem)

    async def _on_ping(self, subject: str, payload: bytes) -> bytes:
        await self._initialized.wait()
        return json.dumps(count_documents(self.registry)).encode()
