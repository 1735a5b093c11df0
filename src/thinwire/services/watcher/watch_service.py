"""What a watch service knows: the watches there are, who follows each, and who evaluates it.

The watch service at a broker: it evaluates the watches that are its share.

Several may run, and any of them may be killed at any time: see `thinwire.services.leased_service`. A watch goes on
where its own log ends, so those who follow it notice a pause and nothing else.
"""

from __future__ import annotations

import json
import logging
import secrets
from contextlib import suppress

from thinwire.brokers.protocol import Broker, BucketEntry
from thinwire.clock import Clock, WallClock
from thinwire.errors import RegistryError
from thinwire.services.leased_service import HeldTopic, LeasedService
from thinwire.services.watcher.watch_runner import WatchSettings, WatchWork
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, leased
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import WATCH_LEASES, WATCHES, check_name_token, evaluator_subject
from thinwire.topics.watches.watch_documents import MAX_WATCHES, WatcherDocument, watch_key, watcher_key

_WATCH, _WATCHER = watch_key(""), watcher_key("", "").removesuffix(".")

_log = logging.getLogger("thinwire.watching")


class WatchServiceState(BucketFollower):
    """Read along in two buckets; see `BucketFollower`."""

    def __init__(self, broker: Broker, leases: Leases) -> None:
        super().__init__(
            broker, {WATCHES: self._described, WATCH_LEASES: lambda: leased(leases)}, _log, quiet=(WATCH_LEASES,)
        )
        self._watches: dict[str, None] = {}
        self._watchers: dict[str, dict[str, WatcherDocument]] = {}

    def needed(self) -> set[str]:
        """The watches that must be evaluated: the oldest, where there are too many."""
        return set(list(self._watches)[:MAX_WATCHES])

    def watchers(self, watch: str) -> list[WatcherDocument]:
        """Who follows a watch."""
        return list(self._watchers.get(watch, {}).values())

    def _described(self) -> BucketHandler:
        watches: dict[str, None] = {}
        watchers: dict[str, dict[str, WatcherDocument]] = {}

        def take(entry: BucketEntry) -> None:
            if entry.key.startswith(_WATCHER):
                _take_watcher(watchers, entry)
            elif entry.key.startswith(_WATCH):
                name = entry.key.removeprefix(_WATCH)
                watches.setdefault(name) if entry.value is not None else watches.pop(name, None)

        def complete() -> None:
            self._watches, self._watchers = watches, watchers

        return BucketHandler(take, complete)


def _take_watcher(watchers: dict[str, dict[str, WatcherDocument]], entry: BucketEntry) -> None:
    watch, _, identity = entry.key.removeprefix(_WATCHER).partition(".")
    watchers.get(watch, {}).pop(identity, None)
    with suppress(RegistryError):
        if entry.value is not None:
            watchers.setdefault(watch, {})[identity] = WatcherDocument.decode(entry.value)


class WatchService(LeasedService[WatchWork]):
    """One watch service at one connection; `run` it as a task and cancel that to end it.

    name: its own among them; lease: seconds without a sign of life after which others take its watches over
    handover: seconds that a watch stays where it is, at least, before it goes to the one that it is meant for
    settings: how watches are looked after
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
        name = check_name_token(name or f"w{secrets.token_hex(4)}", "name")
        leases = Leases(lease, kind="watcher")
        self._state = WatchServiceState(broker, leases)
        super().__init__(broker, name, leases, WATCH_LEASES, self._state, handover, _log)
        self.clock = clock or WallClock()
        self.settings = settings or WatchSettings()

    async def run(self) -> None:
        """Serve until cancelled, or until the connection is closed."""
        listener = await self.broker.listen(evaluator_subject(), self._present)
        try:
            await super().run()
        finally:
            await listener.close()

    def _needed(self) -> set[str]:
        return self._state.needed()

    def _begin(self, lease: Lease) -> WatchWork:
        return WatchWork(self.broker, self.clock, lease, self.settings, self._state.watchers(lease.topic))

    async def _maintain(self, topic: str, held: HeldTopic[WatchWork]) -> None:
        held.work.ask(self._state.watchers(topic))
        if self._should_hand_over(topic, held):
            held.work.stop()

    async def _present(self, subject: str, payload: bytes) -> bytes | None:
        """That there is somebody who evaluates watches."""
        return json.dumps({"name": self.name, "watches": len(self.works)}).encode()
