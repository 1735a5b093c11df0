"""The watch service: evaluates the watches whose leases it holds.

Several instances may run; see `thinwire.services.leased_service`. A watch resumes from its own log, so a takeover is a
pause for its watchers and nothing else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress

from thinwire.brokers.protocol import Broker, BucketEntry, Handler
from thinwire.clock import Clock, WallClock
from thinwire.errors import RegistryError
from thinwire.services.leased_service import HeldTopic, LeasedService
from thinwire.services.watcher.watch_runner import WatchSettings, WatchWork
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, lease_handler
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import WATCH_LEASES, WATCHES, evaluator_subject
from thinwire.topics.watches.watch_documents import MAX_WATCHES, WatcherDocument, watch_key, watcher_key

_WATCH, _WATCHER = watch_key(""), watcher_key("", "").removesuffix(".")

_log = logging.getLogger("thinwire.watches")


class WatchService(LeasedService[WatchWork]):
    """One instance of the watch service. Run `run` as a task and cancel it to stop the service.

    The topics of `LeasedService` are watches here.

    name: unique among the instances; a random one by default
    lease: lease term in seconds; without renewal for that long another instance takes a watch over
    handover: seconds that an instance holds a watch, at least, before it may hand it over to another instance
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock | None = None,
        *,
        name: str = "",
        lease: float = 2.5,
        handover: float = 10.0,
        settings: WatchSettings | None = None,
    ) -> None:
        leases = Leases(lease, kind="watcher")
        handlers = {WATCHES: self._watch_handler, WATCH_LEASES: lease_handler(leases)}
        follower = BucketFollower(broker, handlers, _log, quiet=(WATCH_LEASES,))
        super().__init__(broker, name, leases, WATCH_LEASES, follower, handover, _log)
        self.clock = clock or WallClock()
        self.settings = settings or WatchSettings()
        self._watches: dict[str, None] = {}
        self._watchers: dict[str, dict[str, WatcherDocument]] = {}

    def _handlers(self) -> Mapping[str, Handler]:
        return {evaluator_subject(): self._answer_status}

    def _needed_topics(self) -> set[str]:
        """Return the watches to evaluate: the oldest `MAX_WATCHES`."""
        return set(list(self._watches)[:MAX_WATCHES])

    def _create_work(self, lease: Lease) -> WatchWork:
        return WatchWork(self.broker, self.clock, lease, self.settings, self._watchers_of(lease.topic))

    async def _update_work(self, topic: str, held: HeldTopic[WatchWork]) -> None:
        held.work.update_watchers(self._watchers_of(topic))
        if self._should_hand_over(topic, held):
            held.work.stop()

    def _watchers_of(self, watch: str) -> list[WatcherDocument]:
        return list(self._watchers.get(watch, {}).values())

    async def _answer_status(self, subject: str, payload: bytes) -> bytes | None:
        return json.dumps({"name": self.name, "watches": len(self.active_work)}).encode()

    def _watch_handler(self) -> BucketHandler:
        watches: dict[str, None] = {}
        watchers: dict[str, dict[str, WatcherDocument]] = {}

        def on_entry(entry: BucketEntry) -> None:
            if entry.key.startswith(_WATCHER):
                _take_watcher(watchers, entry)
            elif entry.key.startswith(_WATCH):
                name = entry.key.removeprefix(_WATCH)
                watches.setdefault(name) if entry.value is not None else watches.pop(name, None)

        def on_complete() -> None:
            self._watches, self._watchers = watches, watchers

        return BucketHandler(on_entry, on_complete)


def _take_watcher(watchers: dict[str, dict[str, WatcherDocument]], entry: BucketEntry) -> None:
    watch, _, identity = entry.key.removeprefix(_WATCHER).partition(".")
    watchers.get(watch, {}).pop(identity, None)
    with suppress(RegistryError):
        if entry.value is not None:
            watchers.setdefault(watch, {})[identity] = WatcherDocument.decode(entry.value)
