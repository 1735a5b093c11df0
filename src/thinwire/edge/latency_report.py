"""Measures latency and rate of edge topics, and reports what subscribers observe.

>>> times = LatencyMeter()
>>> times.observe(due=0.0, end=0.6, cpu=0.09)
>>> times.p90(now=1.0), times.interval(now=1.0), times.p90(now=11.0)
(0.6, 0.09, None)
>>> times.p90(now=11.0, waiting=3.0)  # a message that was due at 3.0 is not done
8.0
"""

from __future__ import annotations

import math
from collections import deque

from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import EDGE_REPORTS, EdgeReport, TopicMeasurements
from thinwire.edge.edge_messages import EdgeMessage
from thinwire.topics.names import check_name_token

WINDOW = 5.0
"""seconds of the recent measurements"""
MAX_RECENT = 4096
"""messages in the window, at most"""


class LatencyMeter:
    """Recent latencies of one topic: from the due time of a message until it is done."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=MAX_RECENT)

    def observe(self, due: float, end: float, cpu: float = 0.0) -> None:
        """Add a message. Clocks of two machines may differ, so a negative latency counts as zero.

        end: when it was done; cpu: processor seconds
        """
        self._recent.append((end, max(0.0, end - due), cpu))

    def p90(self, now: float, waiting: float | None = None) -> float | None:
        """Return the recent 90th percentile of the latency; None without messages.

        waiting: due time of a message that is not done; its latency so far is included
        """
        self._drop_old(now)
        latencies = sorted([latency for _, latency, _ in self._recent] + ([] if waiting is None else [now - waiting]))
        return latencies[math.ceil(0.9 * len(latencies)) - 1] if latencies else None

    def interval(self, now: float) -> float | None:
        """Return the recent average of processor seconds per message."""
        self._drop_old(now)
        return sum(cpu for *_, cpu in self._recent) / len(self._recent) if self._recent else None

    def _drop_old(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - WINDOW:
            self._recent.popleft()


class RateMeter:
    """Growth rate of a log, from samples of its last offset.

    >>> rate = RateMeter()
    >>> for second in range(4): rate.observe(100 + 20 * second, now=float(second))
    >>> rate.rate, rate.span
    (20.0, 3.0)
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def observe(self, last: int, now: float) -> None:
        """Add a sample of the last offset."""
        self._samples.append((now, last))
        while len(self._samples) > 2 and self._samples[0][0] < now - WINDOW:
            self._samples.popleft()

    @property
    def rate(self) -> float | None:
        """Messages per second; None with fewer than two samples."""
        return (self._samples[-1][1] - self._samples[0][1]) / self.span if self.span else None

    @property
    def span(self) -> float:
        """Seconds between the first and the last sample."""
        return self._samples[-1][0] - self._samples[0][0] if self._samples else 0.0


class EdgeReporter:
    """Reports the latency of results at one subscriber. The controller uses the worst report of each topic.

    name: of the subscriber
    """

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = check_name_token(f"subscriber-{name}", "name")
        self._broker = broker
        self._meters: dict[str, LatencyMeter] = {}
        self._beat = 0

    def observe(self, topic: str, result: EdgeMessage, now: float) -> None:
        """Add a result of a topic that arrived at `now`, in Unix time."""
        self._meters.setdefault(topic, LatencyMeter()).observe(result.due, now)

    async def report(self, now: float) -> None:
        """Store a report. Call it about every second."""
        self._beat += 1
        topics = {topic: TopicMeasurements(p90=meter.p90(now)) for topic, meter in self._meters.items()}
        report = EdgeReport(self.name, self._beat, topics)
        await (await self._broker.bucket(EDGE_REPORTS)).put(self.name, report.encode())
