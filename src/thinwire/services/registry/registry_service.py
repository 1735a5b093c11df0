"""The registry as a service at a broker: it watches the documents, writes configurations, probes and answers.

It holds nothing that it cannot read again, so it may be killed at any time, and several may run at once: they come to
the same conclusions, and of two writes the broker takes the first. While none runs, publishers go on as they were told.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

from thinwire.brokers.protocol import Broker, Bucket, BucketEntry
from thinwire.clock import Clock, WallClock
from thinwire.errors import (
    Conflict,
    NobodyAnswers,
    RegistryError,
    ThinwireError,
    TransportClosed,
    TransportError,
)
from thinwire.services.registry import registry_state as verbs
from thinwire.services.registry.rdf_projection import RdfProjection, ask_graph
from thinwire.services.registry.registry_state import Registry, Write
from thinwire.topics import document_validation as checks
from thinwire.topics.names import alive_subject, service_subject
from thinwire.topics.registry_client import open_registry
from thinwire.topics.topic_documents import SubscriptionDocument

PROBE_TIMEOUT = 2.0
PROBES_AT_ONCE = 32
RETRY = 1.0
TICK = 0.25
BREATH = 32
REST = 4.0
"""times as long as a decision took, nothing is decided, a tick at most"""
_MARGIN = 1_024
"""bytes that a broker may add to an answer"""

_log = logging.getLogger("thinwire.registry")


class RegistryService:
    """One registry at one connection; `run` it as a task and cancel that to end it.

    grace: seconds a subscription counts after it left; probe_every: seconds between two probes of a subscription
    """

    def __init__(
        self, broker: Broker, clock: Clock | None = None, *, grace: float = 10.0, probe_every: float = 5.0
    ) -> None:
        self.broker = broker
        self.clock = clock or WallClock()
        self.grace = grace
        self.probe_every = probe_every
        self.registry = self._fresh()
        self.graph = RdfProjection()
        self._bucket: Bucket | None = None
        self._ready = asyncio.Event()
        self._wake = asyncio.Event()
        self._reported: dict[str, str] = {}

    async def ready(self) -> None:
        """Wait until it has read what there is and answers; returns as well when it has ended."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled, or until the connection is closed."""
        try:
            async with asyncio.TaskGroup() as group:
                for work in (self._follow, self._conclude, self._probe):
                    group.create_task(work(), name=f"registry {work.__name__.strip('_')}")
        except* TransportClosed:
            _log.info("the connection was closed: the registry ends")
        finally:
            self._ready.set()

    def _fresh(self) -> Registry:
        return Registry(grace=self.grace, probe_every=self.probe_every)

    async def _follow(self) -> None:
        """Answer and read along; after a loss of the broker that outlasts its patience, from the beginning."""
        while True:
            try:
                async with AsyncExitStack() as stack:
                    bucket = await open_registry(self.broker)
                    for verb, handler in self._handlers().items():
                        listener = await self.broker.listen(service_subject(verb), handler)
                        stack.push_async_callback(listener.close)
                    await self._read(bucket)
                raise TransportClosed(url=self.broker.url)
            except TransportClosed:
                raise
            except TransportError as problem:
                _log.warning("the registry waits for its broker: %s", problem)
                await asyncio.sleep(RETRY)

    async def _read(self, bucket: Bucket) -> None:
        registry, graph, read = self._fresh(), RdfProjection(), 0
        async with aclosing(bucket.watch()) as changes:
            async for entry in changes:
                read += 1
                if read % BREATH == 0:
                    await asyncio.sleep(0)  # thousands may come at once: others want to be heard as well
                if entry is None:
                    # what was read so far is all there is: only now conclusions may be drawn from what is missing
                    self.registry, self.graph, self._bucket = registry, graph, bucket
                    self._ready.set()
                else:
                    self._take(entry, registry, graph)
                self._wake.set()

    def _take(self, entry: BucketEntry, registry: Registry, graph: RdfProjection) -> None:
        before = registry.shelf.document(entry.key)
        registry.apply(entry, self.clock.now())
        document = registry.shelf.document(entry.key)
        if document is None and before is not None:
            graph.remove(entry.key)
        elif document is not None and document is not before:
            graph.put(document)

    async def _conclude(self) -> None:
        """Write what follows from the documents, as soon as they change and when somebody has been gone for a while."""
        await self._ready.wait()
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            began = loop.time()
            writes = self.registry.decide(self.clock.now())
            took = loop.time() - began
            for write in writes:
                await self._write(write)
            self._report()
            await asyncio.sleep(min(TICK, REST * took))  # thousands may come one by one, and each changes little
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._wake.wait()

    async def _write(self, write: Write) -> None:
        assert self._bucket is not None
        try:
            if write.value is None:
                await self._bucket.delete(write.key, revision=write.revision)
                _log.info("%s does not answer and was removed", write.key)
                return
            revision = await self._bucket.put(write.key, write.value, revision=write.revision)
        except Conflict:
            return  # somebody else wrote: the watch tells what, and the next decision is based on it
        except TransportClosed:
            raise
        except TransportError as problem:
            _log.warning("%s could not be written: %s", write.key, problem)
            await asyncio.sleep(RETRY)
            return
        self._take(BucketEntry(write.key, write.value, revision), self.registry, self.graph)

    def _report(self) -> None:
        """Say once what is wrong with a document."""
        problems = self.registry.problems()
        for key, sentence in problems.items():
            if self._reported.get(key) != sentence:
                _log.warning("ignored: %s", sentence if sentence.startswith(key) else f"{key}: {sentence}")
        self._reported = problems

    async def _probe(self) -> None:
        await self._ready.wait()
        places = asyncio.Semaphore(PROBES_AT_ONCE)
        while True:
            due = self.registry.probes(self.clock.now())
            await asyncio.gather(*(self._probe_one(asked, places) for asked in due))
            await asyncio.sleep(TICK)

    async def _probe_one(self, asked: SubscriptionDocument, places: asyncio.Semaphore) -> None:
        async with places:
            try:
                await self.broker.request(alive_subject(asked.identity), b"", timeout=PROBE_TIMEOUT)
                self.registry.record_probe(asked, True)
            except NobodyAnswers:
                self.registry.record_probe(asked, False)
                self._wake.set()
            except TransportClosed:
                raise
            except TransportError as problem:
                _log.debug("%s could not be probed: %s", asked.key, problem)

    def _handlers(self) -> dict[str, Callable[[str, bytes], Awaitable[bytes]]]:
        async def ping(body: Mapping[str, Any]) -> dict[str, Any]:
            return verbs.ping(self.registry)

        async def get(body: Mapping[str, Any]) -> dict[str, Any]:
            return verbs.get(self.registry, body)

        async def listed(body: Mapping[str, Any]) -> dict[str, Any]:
            return verbs.listed(self.registry, body)

        async def query(body: Mapping[str, Any]) -> dict[str, Any]:
            if not isinstance(body.get("query"), str):
                checks.refuse("query", "a SPARQL text", body.get("query"))
            return await ask_graph(self.graph, body["query"])

        verbs_by_name = {"ping": ping, "get": get, "list": listed, "query": query}
        return {verb: self._handler(answer) for verb, answer in verbs_by_name.items()}

    def _handler(
        self, answer: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
    ) -> Callable[[str, bytes], Awaitable[bytes]]:
        async def handle(subject: str, payload: bytes) -> bytes:
            try:
                await self._ready.wait()
                said = json.dumps(await answer(checks.read_object(payload or b"{}"))).encode()
                limit = self.broker.capabilities.max_payload - _MARGIN
                if len(said) > limit:
                    raise RegistryError("the answer is too large: ask for less", size=len(said), limit=limit)
                return said
            except ThinwireError as problem:
                return json.dumps({"error": str(problem)}).encode()

        return handle
