"""One watch being evaluated: read, evaluate, write, until nobody follows it or another evaluator does it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from thinwire.brokers.protocol import NOTHING, Broker
from thinwire.clock import Clock
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import Conflict, NobodyAnswers, RegistryError, ThinwireError, TransportError, WatchFailed
from thinwire.topics.leases import Lease
from thinwire.topics.names import WATCHES, alive_subject, evaluator_subject
from thinwire.topics.watches.watch_documents import WatchDocument, WatcherDocument, failed_key, watch_key, watcher_key
from thinwire.topics.watches.watch_evaluation import Evaluation
from thinwire.topics.watches.watch_log import WatchLog
from thinwire.topics.watches.watch_quantities import Resolved, resolve_live

PULSE = 0.5
"""seconds between two looks at whether anybody follows the watch"""
STRIKES = 3
"""questions in a row without an answer after which a follower is gone"""
MAX_REASON = 4_096


@dataclass(frozen=True)
class WatchSettings:
    """How watches are looked after.

    grace: seconds that a watch outlives the last who followed it
    probe: seconds between two questions to those who follow it
    records, seconds: what lies between two states in its log, whichever is over first
    """

    grace: float = 10.0
    probe: float = 2.0
    records: int = 256
    seconds: float = 30.0


class WatchWork:
    """The evaluation of one watch; `run` it once.

    begun: has it said where it begins?
    """

    def __init__(
        self, broker: Broker, clock: Clock, lease: Lease, settings: WatchSettings, watchers: Collection[WatcherDocument]
    ) -> None:
        self.watch = lease.topic
        self.lease = lease
        self.settings = settings
        self.begun = False
        self._broker = broker
        self._clock = clock
        self._watchers = watchers
        self._strikes: dict[str, int] = {}
        self._stopping = False
        self._log = WatchLog(broker, self.watch)

    def ask(self, watchers: Collection[WatcherDocument]) -> None:
        """Those who follow it now."""
        self._watchers = watchers

    def stop(self) -> None:
        """End at a clean place: everything looked at is stored."""
        self._stopping = True

    async def run(self) -> None:
        """Until nobody follows it, or it is stopped.

        Raises `Superseded` where another evaluator writes; what makes it impossible is written where followers see it.
        """
        await asyncio.to_thread(warm_up)
        try:
            document = await self._document()
            if document is None:
                return
            resolved = await self._resolved(document)
            await self._evaluate(document, resolved)
        except TransportError:
            raise
        except ThinwireError as problem:
            await self._fail(problem)
            raise

    async def _fail(self, problem: ThinwireError) -> None:
        """Say why, to those who wait for it; where nobody does any more it is not tried again."""
        bucket = await self._broker.bucket(WATCHES)
        await bucket.put(failed_key(self.watch), str(problem)[:MAX_REASON].encode())
        await self._probe(strikes=1)
        if not await bucket.entries(watcher_key(self.watch)):
            await bucket.delete(watch_key(self.watch))
            await bucket.delete(failed_key(self.watch))

    async def _document(self) -> WatchDocument | None:
        entry = await (await self._broker.bucket(WATCHES)).get(watch_key(self.watch))
        return WatchDocument.decode(entry.value) if entry is not None and entry.value is not None else None

    async def _resolved(self, document: WatchDocument) -> Resolved:
        resolved = await resolve_live(self._broker, document.expression)
        if resolved.condition.fingerprint != document.fingerprint:
            raise WatchFailed("the schemas say something else than when it was made: watch it anew", watch=self.watch)
        return resolved

    async def _evaluate(self, document: WatchDocument, resolved: Resolved) -> None:
        identity = f"w{self.watch}"
        evaluation = Evaluation(self._broker, self._clock, resolved, document.options, identity, durable=True)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(evaluation.close)
            await self._log.open()
            progress = await self._log.recover(document.fingerprint)
            await evaluation.begin(progress)
            if progress is None:
                await self._log.keep(evaluation.bookmark())
            await (await self._broker.bucket(WATCHES)).delete(failed_key(self.watch))
            listener = await self._broker.listen(evaluator_subject(self.watch), self._present)
            self.begun = True
            while True:
                try:
                    followed = await self._work(evaluation)
                finally:
                    await listener.close()  # before it is decided whether to end: who was answered is found below
                if followed or await self._forgotten(document):
                    break
                listener = await self._broker.listen(evaluator_subject(self.watch), self._present)
            await self._log.keep(evaluation.bookmark()) if followed else await self._end(evaluation)

    async def _work(self, evaluation: Evaluation) -> bool:
        """Until it is stopped (True), or nobody has followed it for a while (False)."""
        loop = asyncio.get_running_loop()
        kept = followed = probed = loop.time()
        while not self._stopping:
            step = await evaluation.next(PULSE)
            await self._log.write(step)
            now = loop.time()
            if self._log.since >= self.settings.records or (evaluation.ahead and now - kept >= self.settings.seconds):
                kept = now
                await self._log.keep(evaluation.bookmark())
            if now - probed >= self.settings.probe:
                probed = now
                await self._probe()
            if self._watchers:
                followed = now
            elif now - followed >= self.settings.grace:
                return False
        return True

    async def _probe(self, strikes: int = STRIKES) -> None:
        """Ask those who follow it whether they still do; durable ones need not answer."""
        asked = [watcher for watcher in self._watchers if not watcher.durable]
        answers = await asyncio.gather(*(self._answers(watcher.identity) for watcher in asked))
        bucket = await self._broker.bucket(WATCHES)
        for watcher, answered in zip(asked, answers, strict=True):
            self._strikes[watcher.identity] = 0 if answered else self._strikes.get(watcher.identity, 0) + 1
            if self._strikes[watcher.identity] >= strikes:
                with suppress(TransportError):
                    await bucket.delete(watcher.key)

    async def _answers(self, identity: str) -> bool:
        try:
            await self._broker.request(alive_subject(identity), b"", timeout=1.0)
        except NobodyAnswers:
            return False
        except TransportError:
            return True  # the broker is away, which says nothing about anybody
        return True

    async def _forgotten(self, document: WatchDocument) -> bool:
        """Take the watch back; False where somebody came in this moment, and it goes on."""
        bucket = await self._broker.bucket(WATCHES)
        await bucket.delete(document.key)
        for entry in await bucket.entries(watcher_key(self.watch)):
            with suppress(RegistryError):
                if entry.value is not None and WatcherDocument.decode(entry.value):
                    with suppress(Conflict):  # whoever came may have put it there already
                        await bucket.put(document.key, document.encode(), revision=NOTHING)
                    return False
        return True

    async def _end(self, evaluation: Evaluation) -> None:
        """Nobody follows it: its topics need not be exact for it, and nothing of it is kept."""
        await evaluation.demands.end()
        await self._log.delete()
        await (await self._broker.bucket(WATCHES)).delete(failed_key(self.watch))

    async def _present(self, subject: str, payload: bytes) -> bytes | None:
        """Who evaluates the watch, and the last record of its log."""
        who = {"name": self.lease.document.holder, "epoch": self.lease.epoch}
        return json.dumps({**who, "last": self._log.last}).encode()
