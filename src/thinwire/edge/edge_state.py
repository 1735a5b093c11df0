"""The state of the edge as hosts and controllers follow it: topics, hosts, assignment, models, leases and reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from thinwire.brokers.protocol import NOTHING, Broker, BucketEntry
from thinwire.edge.edge_documents import (
    ASSIGNMENT,
    EDGE,
    EDGE_LEADER,
    EDGE_LEASES,
    EDGE_REPORTS,
    Assignment,
    EdgeHostDocument,
    EdgeReport,
    EdgeTopic,
)
from thinwire.errors import RegistryError
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, lease_handler
from thinwire.topics.leases import Leases

_log = logging.getLogger("thinwire.edge")

T = TypeVar("T")


class EdgeState(BucketFollower):
    """The documents of the edge. An unreadable one is logged and counts as absent.

    topics, hosts, models: by name
    assignment, revision: the assignment and its bucket revision
    leases: of the topics, held by hosts; leaders: the leases of controllers, which a controller follows
    reports: at a controller, the last report of each reporter and its arrival by the clock of the event loop
    """

    def __init__(self, broker: Broker, leases: Leases, leaders: Leases | None = None) -> None:
        self.topics: dict[str, EdgeTopic] = {}
        self.hosts: dict[str, EdgeHostDocument] = {}
        self.models: dict[str, bytes] = {}
        self.assignment = Assignment()
        self.revision = NOTHING
        self.reports: dict[str, tuple[EdgeReport, float]] = {}
        handlers: dict[str, Callable[[], BucketHandler]] = {
            EDGE: self._edge_handler,
            EDGE_LEASES: lease_handler(leases),
        }
        if leaders is not None:
            handlers |= {EDGE_REPORTS: self._report_handler, EDGE_LEADER: lease_handler(leaders)}
        super().__init__(broker, handlers, _log, quiet=(EDGE_LEASES, EDGE_REPORTS))

    def assigned_topics(self) -> set[str]:
        """Return the topics that are assigned to a host."""
        return self.topics.keys() & self.assignment.hosts.keys()

    def _edge_handler(self) -> BucketHandler:
        topics: dict[str, EdgeTopic] = {}
        hosts: dict[str, EdgeHostDocument] = {}
        models: dict[str, bytes] = {}

        def take(entry: BucketEntry) -> None:
            kind, _, name = entry.key.partition(".")
            if kind == "topic":
                _update(topics, name, _decode(entry, EdgeTopic.decode))
            elif kind == "host":
                _update(hosts, name, _decode(entry, EdgeHostDocument.decode))
            elif kind == "model":
                _update(models, name, entry.value)
            elif entry.key == ASSIGNMENT:
                self.assignment = _decode(entry, Assignment.decode) or Assignment()
                self.revision = entry.revision if entry.value is not None else NOTHING

        def complete() -> None:
            self.topics, self.hosts, self.models = topics, hosts, models

        return BucketHandler(take, complete)

    def _report_handler(self) -> BucketHandler:
        now = asyncio.get_running_loop().time

        def take(entry: BucketEntry) -> None:
            report = _decode(entry, EdgeReport.decode)
            _update(self.reports, entry.key, None if report is None else (report, now()))

        return BucketHandler(take, lambda: None)


def _update(documents: dict[str, T], name: str, document: T | None) -> None:
    if document is None:
        documents.pop(name, None)
    else:
        documents[name] = document


def _decode(entry: BucketEntry, decode: Callable[[bytes], T]) -> T | None:
    if entry.value is None:
        return None
    try:
        return decode(entry.value)
    except RegistryError as problem:
        _log.warning("unreadable document %s counts as absent: %s", entry.key, problem)
        return None
