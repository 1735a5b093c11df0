"""Watching a stream: how far it is, and ending it after the batch that runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from thinwire.spark.source.source_options import read_written

PULSE = 0.25
PATIENCE = 120.0
"""seconds that a batch may go on once the end was asked for; one that is cut off is done again at the next start"""


@dataclass
class JobProgress:
    """How far a job is: rows and batches of this run, messages still to come, the next offset of each topic."""

    rows: int = 0
    batches: int = 0
    behind: int = 0
    offsets: Mapping[str, int] = field(default_factory=dict)


Tell = Callable[[JobProgress], None]


class QueryMonitor:
    """Watches queries that follow one another on one checkpoint, for so many seconds altogether."""

    def __init__(self, seconds: float | None = None, tell: Tell | None = None) -> None:
        self.progress = JobProgress()
        self._end = time.monotonic() + seconds if seconds is not None else float("inf")
        self._tell = tell
        self._rows: dict[int, int] = {}
        self._seen = ""

    def until_over(self, query: StreamingQuery, stop: Event) -> None:
        """Return when the query has ended, or was ended because of the time or because somebody wants it to.

        Raises what made it fail.
        """
        while query.isActive:
            self.look(query)
            if stop.wait(PULSE) or time.monotonic() >= self._end:
                self._finish(query)
        self.look(query)
        query.awaitTermination()

    def look(self, query: StreamingQuery) -> None:
        """Take note of the batches that are done."""
        last = query.lastProgress
        if last is not None and last["timestamp"] != self._seen:
            self._seen = last["timestamp"]
            for told in query.recentProgress:
                self._note(told)
        if self._tell is not None:
            self._tell(self.progress)

    def _note(self, told: Any) -> None:
        source = told["sources"][0]
        reached, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if source["startOffset"] != source["endOffset"]:
            self._rows[told["batchId"]] = told["numInputRows"]
        self.progress.rows, self.progress.batches = sum(self._rows.values()), len(self._rows)
        self.progress.offsets = reached or self.progress.offsets
        self.progress.behind = sum(max(0, end - reached.get(topic, 1)) for topic, end in latest.items())

    def _finish(self, query: StreamingQuery) -> None:
        """End it behind the batch that runs now."""
        done, end = _done(query), time.monotonic() + PATIENCE
        while query.isActive and query.status["isTriggerActive"] and _done(query) == done and time.monotonic() < end:
            time.sleep(PULSE / 5)
        query.stop()


def _done(query: StreamingQuery) -> Any:
    last = query.lastProgress
    return last["batchId"] if last is not None else None


def _offsets(text: Any) -> dict[str, int]:
    found = json.loads(text) if isinstance(text, str) else text
    return {topic: place.offset for topic, place in read_written(found).items()} if isinstance(found, dict) else {}
