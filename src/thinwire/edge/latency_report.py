"""What subscribers see of a topic, for the controller: a promise is about when messages arrive.

How long the messages of a topic take: since they came here, and lately.

>>> times = Times(window=10.0)
>>> times.observe(due=0.0, arrival=0.1, start=0.5, end=0.6, cpu=0.09)
>>> round(times.latency.quantile(0.9), 2), round(times.waited.quantile(0.9), 2), times.p90(now=1.0)
(0.6, 0.4, 0.6)
>>> times.p90(now=11.0) is None
True
>>> times.p90(now=11.0, waiting=3.0)  # one that was meant for then is still not done
8.0
"""

from __future__ import annotations

import math
from collections import deque

from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import EDGE_REPORTS, EdgeReport, Seen
from thinwire.edge.edge_messages import Carried
from thinwire.ledger.histogram import Histogram
from thinwire.topics.names import check_name_token

RECENT = 4096
"""messages that are remembered one by one"""


class Times:
    """The times of one topic.

    window: seconds that count as lately
    latency: from the instant a message was meant to be sent until it was done; travelled, waited, wall: the parts of
    it until it came here, until work on it began, and until that ended; cpu: processor time
    work, work_cpu: the last two on average
    """

    def __init__(self, window: float = 5.0) -> None:
        self.window = window
        self.latency, self.travelled, self.waited = Histogram(), Histogram(), Histogram()
        self.wall, self.cpu = Histogram(), Histogram()
        self.work, self.work_cpu = Mean(), Mean()
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=RECENT)

    def observe(self, due: float, arrival: float, start: float, end: float, cpu: float) -> None:
        """A message is done. Clocks of two machines may differ: what would be negative counts as nothing."""
        self.latency.add(max(0.0, end - due))
        self.travelled.add(max(0.0, arrival - due))
        self.waited.add(max(0.0, start - arrival))
        self.wall.add(max(0.0, end - start))
        self.cpu.add(max(0.0, cpu))
        self.work.add(max(0.0, end - start))
        self.work_cpu.add(max(0.0, cpu))
        self._recent.append((end, max(0.0, end - due), max(0.0, cpu)))

    def p90(self, now: float, waiting: float | None = None) -> float | None:
        """Of the messages done lately, and of the one that waits since then, where there is one; None without any."""
        self._forget(now)
        late = sorted([latency for _, latency, _ in self._recent] + ([] if waiting is None else [now - waiting]))
        return late[math.ceil(0.9 * len(late)) - 1] if late else None

    def interval(self, now: float) -> float | None:
        """Processor seconds of a message lately, on average."""
        self._forget(now)
        return sum(cpu for *_, cpu in self._recent) / len(self._recent) if self._recent else None

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - self.window:
            self._recent.popleft()


class Mean:
    """An average, and how far values are spread around it.

    >>> mean = Mean()
    >>> for value in (1.0, 2.0, 3.0): mean.add(value)
    >>> mean.value, round(mean.spread, 3)
    (2.0, 0.408)
    """

    def __init__(self) -> None:
        self.count, self.value, self._squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        self.count += 1
        off = value - self.value
        self.value += off / self.count
        self._squares += off * (value - self.value)

    @property
    def spread(self) -> float:
        """The standard deviation as a share of the average; 0 without values."""
        return math.sqrt(self._squares / self.count) / self.value if self.count and self.value else 0.0


class Flow:
    """How fast a log grows, from its last offset as it was seen now and then.

    >>> flow = Flow(window=5.0)
    >>> for second in range(4): flow.saw(100 + 20 * second, now=float(second))
    >>> flow.rate, flow.span
    (20.0, 3.0)
    """

    def __init__(self, window: float = 5.0) -> None:
        self.window = window
        self._seen: deque[tuple[float, int]] = deque()

    def saw(self, last: int, now: float) -> None:
        """The log ends at this offset now."""
        self._seen.append((now, last))
        while len(self._seen) > 2 and self._seen[0][0] < now - self.window:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Messages a second; None until it was seen twice."""
        return (self._seen[-1][1] - self._seen[0][1]) / self.span if self.span else None

    @property
    def span(self) -> float:
        """The seconds over which that was seen."""
        return self._seen[-1][0] - self._seen[0][0] if self._seen else 0.0


class EdgeReporter:
    """Tells how late the results of topics reach one subscriber; the controller goes by the worst that anybody saw.

    name: the subscriber's own; window: seconds that count as lately
    """

    def __init__(self, broker: Broker, name: str, *, window: float = 5.0) -> None:
        self.name, self.window = check_name_token(f"subscriber-{name}", "name"), window
        self._broker = broker
        self._times: dict[str, Times] = {}
        self._beat = 0

    def saw(self, topic: str, result: Carried, now: float) -> None:
        """A result of the function of a topic has come at this instant, in seconds since the epoch."""
        times = self._times.setdefault(topic, Times(self.window))
        times.observe(result.due, now, now, now, 0.0)

    async def report(self, now: float) -> None:
        """Report what came lately; to be called about every second."""
        self._beat += 1
        topics = {topic: Seen(p90=times.p90(now)) for topic, times in self._times.items()}
        report = EdgeReport(self.name, self._beat, topics)
        await (await self._broker.bucket(EDGE_REPORTS)).put(self.name, report.encode())
