"""What subscribers see of a topic, for the controller: a promise is about when messages arrive."""

from __future__ import annotations

from thinwire.brokers.protocol_broker import Broker
from thinwire.edge.edge_documents import Report, Seen
from thinwire.edge.edge_documents_names import EDGE_REPORTS
from thinwire.edge.edge_messages import Carried
from thinwire.edge.latency_report_times import Times
from thinwire.topics.names import check_word


class EdgeReporter:
    """Tells how late the results of topics reach one subscriber; the controller goes by the worst that anybody saw.

    name: the subscriber's own; window: seconds that count as lately
    """

    def __init__(self, broker: Broker, name: str, *, window: float = 5.0) -> None:
        self.name, self.window = check_word(f"subscriber-{name}", "name"), window
        self._broker = broker
        self._times: dict[str, Times] = {}
        self._beat = 0

    def saw(self, topic: str, result: Carried, now: float) -> None:
        """A result of the function of a topic has come at this instant, in seconds since the epoch."""
        times = self._times.setdefault(topic, Times(self.window))
        times.observe(result.due, now, now, now, 0.0)

    async def tell(self, now: float) -> None:
        """Report what came lately; to be called about every second."""
        self._beat += 1
        topics = {topic: Seen(p90=times.p90(now)) for topic, times in self._times.items()}
        report = Report(self.name, self._beat, topics)
        await (await self._broker.bucket(EDGE_REPORTS)).put(self.name, report.encode())
