"""What a watch service knows: the watches there are, who follows each, and who evaluates it."""

from __future__ import annotations

import logging
from contextlib import suppress

from thinwire.brokers.protocol_broker import Broker, Entry
from thinwire.errors import RegistryError
from thinwire.topics.bucket_follower import Along, Reading, leased
from thinwire.topics.leases import Leases
from thinwire.topics.names import WATCH_LEASES, WATCHES
from thinwire.topics.watches.watch_documents import MAX_WATCHES, WatcherDocument, watch_key, watcher_key

_WATCH, _WATCHER = watch_key(""), watcher_key("", "").removesuffix(".")

_log = logging.getLogger("thinwire.watching")


class Knowledge(Along):
    """Read along in two buckets; see `Along`."""

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

    def _described(self) -> Reading:
        watches: dict[str, None] = {}
        watchers: dict[str, dict[str, WatcherDocument]] = {}

        def take(entry: Entry) -> None:
            if entry.key.startswith(_WATCHER):
                _take_watcher(watchers, entry)
            elif entry.key.startswith(_WATCH):
                name = entry.key.removeprefix(_WATCH)
                watches.setdefault(name) if entry.value is not None else watches.pop(name, None)

        def complete() -> None:
            self._watches, self._watchers = watches, watchers

        return Reading(take, complete)


def _take_watcher(watchers: dict[str, dict[str, WatcherDocument]], entry: Entry) -> None:
    watch, _, identity = entry.key.removeprefix(_WATCHER).partition(".")
    watchers.get(watch, {}).pop(identity, None)
    with suppress(RegistryError):
        if entry.value is not None:
            watchers.setdefault(watch, {})[identity] = WatcherDocument.decode(entry.value)
