"""Publishers that are gone: those that left, and those that have not been heard for longer than their heartbeats allow.

What they told stays true until somebody says otherwise; only their word that they are complete is not waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from thinwire.brokers.protocol_broker import Broker
from thinwire.errors import RegistryError, TransportClosed, TransportError
from thinwire.filters.composite import Feed
from thinwire.topics.names import REGISTRY
from thinwire.topics.topic_documents import PublisherDocument, decode
from thinwire.topics.topic_settings import publisher_key
from thinwire.topics.watches.watched_topic import TopicLog

LOOK = 5.0
"""seconds between two looks"""
HEARTBEATS = 2.0
"""that a publisher may leave out"""
LEAVING = 5.0
"""seconds in which the last words of one that has left are read"""
_ANY = "any"

_log = logging.getLogger("thinwire.watching")


class Vanishing:
    """Who is there of a watch's publishers."""

    def __init__(self, broker: Broker, logs: Sequence[TopicLog]) -> None:
        self._broker = broker
        self._logs = logs
        self._gone: set[Feed] = set()
        self._looked: float | None = None

    async def present(self, log: TopicLog) -> set[str]:
        """The publishers of a topic that are registered, or have been heard; from now on they are waited for."""
        now = asyncio.get_running_loop().time()
        for name in await self._registered(log):
            log.heard.setdefault(name, now)
        return set(log.heard)

    async def gone(self, now: float) -> list[tuple[Feed, float]]:
        """Those that are gone since the last look, and for how many seconds."""
        if self._looked is not None and now - self._looked < LOOK:
            return []
        self._looked = now
        try:
            return [found for log in self._logs for found in await self._gone_of(log, now)]
        except TransportClosed:
            raise
        except TransportError as problem:  # nobody is gone because the broker is away
            _log.debug("publishers cannot be looked for: %s", problem)
            return []

    async def _gone_of(self, log: TopicLog, now: float) -> list[tuple[Feed, float]]:
        there = await self._registered(log)
        patience = HEARTBEATS * _max_silence(log) + LEAVING
        found: list[tuple[Feed, float]] = []
        for publisher, heard in log.heard.items():
            feed, quiet = Feed(log.topic, publisher), now - heard
            if quiet < (patience if publisher in there or not log.view.managed else LEAVING):
                self._gone.discard(feed)
            elif feed not in self._gone:
                self._gone.add(feed)
                found.append((feed, quiet))
        return found

    async def _registered(self, log: TopicLog) -> set[str]:
        if not log.view.managed:
            return set()
        bucket = await self._broker.bucket(REGISTRY)
        names: set[str] = set()
        for entry in await bucket.entries(publisher_key(log.topic, _ANY).removesuffix(_ANY) + "*"):
            try:
                document = decode(entry.key, entry.value) if entry.value is not None else None
            except RegistryError:
                continue
            if isinstance(document, PublisherDocument):
                names.add(document.name)
        return names


def _max_silence(log: TopicLog) -> float:
    return log.view.document.settings.max_silence if log.view.document is not None else 30.0
