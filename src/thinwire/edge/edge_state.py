"""What hosts and controllers read along: topics, hosts, where topics shall be, who holds them, what was reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from thinwire.brokers.protocol import NOTHING, Broker, BucketEntry
from thinwire.edge.edge_documents import (
    ASSIGNMENT,
    EDGE,
    EDGE_LEASES,
    EDGE_REPORTS,
    Assignment,
    EdgeHostDocument,
    EdgeReport,
    EdgeTopic,
    host_in,
    model_in,
    model_key,
    topic_in,
    topic_key,
)
from thinwire.errors import RegistryError
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, leased
from thinwire.topics.leases import Leases

_log = logging.getLogger("thinwire.edge")

T = TypeVar("T")


class EdgeState(BucketFollower):
    """The edge as its documents tell; what cannot be read is told in the log and left out.

    topics, hosts: by name; assignment and its revision: where topics shall be
    models: what the functions of topics go by
    reports: the last of each reporter, and when it came by this process's own clock; read where `reported` is asked for
    more: other buckets to read along
    """

    def __init__(
        self,
        broker: Broker,
        leases: Leases,
        *,
        reported: bool = False,
        more: Mapping[str, Callable[[], BucketHandler]] | None = None,
    ) -> None:
        self.topics: dict[str, EdgeTopic] = {}
        self.hosts: dict[str, EdgeHostDocument] = {}
        self.models: dict[str, bytes] = {}
        self.assignment = Assignment()
        self.revision = NOTHING
        self.reports: dict[str, tuple[EdgeReport, float]] = {}
        readings: dict[str, Callable[[], BucketHandler]] = {
            EDGE: self._edge,
            EDGE_LEASES: lambda: leased(leases),
            **({EDGE_REPORTS: self._reported} if reported else {}),
            **(more or {}),
        }
        super().__init__(broker, readings, _log, quiet=(EDGE_LEASES, EDGE_REPORTS))

    def needed(self) -> set[str]:
        """The topics that somebody shall process."""
        return self.topics.keys() & self.assignment.hosts.keys()

    def _edge(self) -> BucketHandler:
        found: set[str] = set()

        def take(entry: BucketEntry) -> None:
            found.add(entry.key)
            self._take(entry)

        def complete() -> None:  # what went while nobody was told
            for topic in [t for t in self.topics if topic_key(t) not in found]:
                del self.topics[topic]
            for topic in [t for t in self.models if model_key(t) not in found]:
                del self.models[topic]

        return BucketHandler(take, complete)

    def _take(self, entry: BucketEntry) -> None:
        if (topic := topic_in(entry.key)) is not None:
            _keep(self.topics, topic, _read(entry, EdgeTopic.decode))
        elif (host := host_in(entry.key)) is not None:
            _keep(self.hosts, host, _read(entry, EdgeHostDocument.decode))
        elif (taught := model_in(entry.key)) is not None:
            _keep(self.models, taught, entry.value)
        elif entry.key == ASSIGNMENT:
            self.assignment = _read(entry, Assignment.decode) or Assignment()
            self.revision = entry.revision if entry.value is not None else NOTHING

    def _reported(self) -> BucketHandler:
        now = asyncio.get_running_loop().time

        def take(entry: BucketEntry) -> None:
            report = _read(entry, EdgeReport.decode)
            _keep(self.reports, entry.key, None if report is None else (report, now()))

        return BucketHandler(take, lambda: None)


def _keep(shelf: dict[str, T], name: str, found: T | None) -> None:
    if found is None:
        shelf.pop(name, None)
    else:
        shelf[name] = found


def _read(entry: BucketEntry, decode: Callable[[bytes], T]) -> T | None:
    if entry.value is None:
        return None
    try:
        return decode(entry.value)
    except RegistryError as problem:
        _log.warning("%s cannot be read and is left out: %s", entry.key, problem)
        return None
