"""Measures latency and rate of edge topics, and reports what subscribers observe.

>>> times = LatencyMeter(window=10.0)
>>> times.observe(due=0.0, start=0.5, end=0.6, cpu=0.09)
>>> round(times.latency.quantile(0.9), 2), times.p90(now=1.0)
(0.6, 0.6)
>>> times.p90(now=11.0) is None
True
>>> times.p90(now=11.0, waiting=3.0)  # a message that was due at 3.0 is not done
8.0
"""

from __future__ import annotations

import math
from collections import deque

from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import EDGE_REPORTS, EdgeReport, Seen
from thinwire.edge.edge_messages import EdgeMessage
from thinwire.ledger.histogram import Histogram
from thinwire.topics.names import check_name_token

MAX_RECENT = 4096
"""messages in the window, at most"""


class LatencyMeter:
    """Latencies of one topic.

    window: seconds of the recent measurements
    latency: from the due time of a message until it is done
    wall, cpu: seconds of processing and of processor time; work, work_cpu: their means
    """

    def __init__(self, window: float = 5.0) -> None:
        self.window = window
        self.latency, self.wall, self.cpu = Histogram(), Histogram(), Histogram()
        self.work, self.work_cpu = RunningMean(), RunningMean()
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=MAX_RECENT)

    def observe(self, due: float, start: float, end: float, cpu: float) -> None:
        """Add a message. Clocks of two machines may differ, so negative differences count as zero."""
        latency, wall, cpu = max(0.0, end - due), max(0.0, end - start), max(0.0, cpu)
        self.latency.add(latency)
        self.wall.add(wall)
        self.cpu.add(cpu)
        self.work.add(wall)
        self.work_cpu.add(cpu)
        self._recent.append((end, latency, cpu))

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
        while self._recent and self._recent[0][0] < now - self.window:
            self._recent.popleft()


class RunningMean:
    """Mean and relative standard deviation of a sequence.

    >>> mean = RunningMean()
    >>> for value in (1.0, 2.0, 3.0): mean.add(value)
    >>> mean.value, round(mean.spread, 3)
    (2.0, 0.408)
    """

    def __init__(self) -> None:
        self.count, self.value, self._squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        self.count += 1
        difference = value - self.value
        self.value += difference / self.count
        self._squares += difference * (value - self.value)

    @property
    def spread(self) -> float:
        """Standard deviation divided by the mean; 0 without values."""
        return math.sqrt(self._squares / self.count) / self.value if self.count and self.value else 0.0


class RateMeter:
    """Growth rate of a log, from samples of its last offset.

    >>> rate = RateMeter(window=5.0)
    >>> for second in range(4): rate.observe(100 + 20 * second, now=float(second))
    >>> rate.rate, rate.span
    (20.0, 3.0)
    """

    def __init__(self, window: float = 5.0) -> None:
        self.window = window
        self._samples: deque[tuple[float, int]] = deque()

    def observe(self, last: int, now: float) -> None:
        """Add a sample of the last offset."""
        self._samples.append((now, last))
        while len(self._samples) > 2 and self._samples[0][0] < now - self.window:
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
    window: seconds of the recent measurements
    """

    def __init__(self, broker: Broker, name: str, *, window: float = 5.0) -> None:
        self.name, self.window = check_name_token(f"subscriber-{name}", "name"), window
        self._broker = broker
        self._meters: dict[str, LatencyMeter] = {}
        self._beat = 0

    def observe(self, topic: str, result: EdgeMessage, now: float) -> None:
        """Add a result of a topic that arrived at `now`, in Unix time."""
        meter = self._meters.setdefault(topic, LatencyMeter(self.window))
        meter.observe(result.due, now, now, 0.0)

    async def report(self, now: float) -> None:
        """Store a report. Call it about every second."""
        self._beat += 1
        topics = {topic: Seen(p90=meter.p90(now)) for topic, meter in self._meters.items()}
        report = EdgeReport(self.name, self._beat, topics)
        await (await self._broker.bucket(EDGE_REPORTS)).put(self.name, report.encode())
