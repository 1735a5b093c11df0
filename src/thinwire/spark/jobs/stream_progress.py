"""Progress of streaming queries, and stopping them after the running batch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from thinwire.spark.source.source_options import decode_positions

POLL_INTERVAL = 0.25
STOP_TIMEOUT = 120.0
"""seconds until a running batch is interrupted; an interrupted batch is repeated at the next start"""


@dataclass
class JobProgress:
    """Progress of a job: rows and batches of this run, unread messages, and the next offset to read by topic."""

    rows: int = 0
    batches: int = 0
    behind: int = 0
    offsets: Mapping[str, int] = field(default_factory=dict)


OnProgress = Callable[[JobProgress], None]


class QueryMonitor:
    """Monitors consecutive queries with one checkpoint.

    seconds: time limit of all queries together
    """

    def __init__(self, seconds: float | None = None, on_progress: OnProgress | None = None) -> None:
        self.progress = JobProgress()
        self._end = time.monotonic() + seconds if seconds is not None else float("inf")
        self._on_progress = on_progress
        self._rows: dict[int, int] = {}
        """rows by batch, because Spark reports a batch several times"""
        self._last_timestamp = ""

    def wait(self, query: StreamingQuery, stop: Event) -> None:
        """Wait until the query ends by itself, `stop` is set or the time limit is reached. Raise the query's error."""
        while query.isActive:
            self._update(query)
            if stop.wait(POLL_INTERVAL) or time.monotonic() >= self._end:
                _stop_after_batch(query)
        self._update(query)
        query.awaitTermination()

    def _update(self, query: StreamingQuery) -> None:
        """Update the progress from completed batches."""
        last = query.lastProgress
        if last is not None and last["timestamp"] != self._last_timestamp:
            self._last_timestamp = last["timestamp"]
            for batch in query.recentProgress:
                self._add_batch(batch)
        if self._on_progress is not None:
            self._on_progress(self.progress)

    def _add_batch(self, batch: Any) -> None:
        source = batch["sources"][0]
        reached, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if source["startOffset"] != source["endOffset"]:
            self._rows[batch["batchId"]] = batch["numInputRows"]
        self.progress.rows, self.progress.batches = sum(self._rows.values()), len(self._rows)
        self.progress.offsets = reached or self.progress.offsets
        self.progress.behind = sum(max(0, end - reached.get(topic, 1)) for topic, end in latest.items())


def _stop_after_batch(query: StreamingQuery) -> None:
    """Stop the query when the running batch is complete."""
    last, end = _last_batch(query), time.monotonic() + STOP_TIMEOUT
    while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == last and time.monotonic() < end:
        time.sleep(POLL_INTERVAL / 5)
    query.stop()


def _last_batch(query: StreamingQuery) -> Any:
    last = query.lastProgress
    return last["batchId"] if last is not None else None


def _offsets(text: Any) -> dict[str, int]:
    found = json.loads(text) if isinstance(text, str) else text
    return {topic: at.offset for topic, at in decode_positions(found).items()} if isinstance(found, dict) else {}
