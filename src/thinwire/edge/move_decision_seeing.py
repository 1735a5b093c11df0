"""What a controller makes of reports: topics as they are now, and promises that have been broken for a while."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from thinwire.edge.edge_documents import EdgeTopic, Report, Seen
from thinwire.edge.edge_state import EdgeKnowledge
from thinwire.edge.move_decision import View
from thinwire.placement import Host, Topic

QUIETEST = 0.01
"""messages a second that a topic counts for at least"""
SURE = 4.0
"""standard deviations from the expected number of messages that are no chance: many topics are looked at every second,
and with three of them some topic seems to have changed every few minutes"""
STUBBORN = 15.0
"""seconds that a broken promise may come from what was left to do"""
STALE = 5.0
"""seconds after which a report tells nothing any more"""


class Sight:
    """The edge as it was reported.

    patience: seconds that a promise must be broken before anything is done about it
    """

    def __init__(self, knowledge: EdgeKnowledge, patience: float = 2.0) -> None:
        self.patience = patience
        self._knowledge = knowledge
        self._since: dict[str, float] = {}

    def view(self, there: set[str], now: float) -> View:
        """Topics with the rates that were seen, on the hosts that are there."""
        known = self._knowledge
        hosts = {name: known.hosts[name].placed for name in sorted(there & known.hosts.keys())}
        seen = self.seen(now)
        needed = known.needed()
        topics = {name: _now(known.topics[name], seen.get(name), self._host(name, hosts)) for name in sorted(needed)}
        pinned = frozenset(name for name in needed if known.topics[name].host)
        return View(topics, hosts, dict(known.assignment.hosts), pinned)

    def seen(self, now: float) -> dict[str, Seen]:
        """What the host of each topic saw of it; the p90 is the worst that anybody reported."""
        found: dict[str, Seen] = {}
        fresh = {name: report for name, (report, came) in self._knowledge.reports.items() if now - came < STALE}
        for topic, host in self._knowledge.assignment.hosts.items():
            if host in fresh and topic in fresh[host].topics:
                found[topic] = replace(fresh[host].topics[topic], p90=_worst(fresh, topic))
        return found

    def broken(self, now: float) -> set[str]:
        """Topics whose promise has been broken for as long as patience lasts; to be asked again and again."""
        late = {
            topic
            for topic, seen in self.seen(now).items()
            if topic in self._knowledge.topics and (seen.p90 or 0.0) > self._knowledge.topics[topic].promise
        }
        self._since = {topic: self._since.get(topic, now) for topic in late}
        return {topic for topic, since in self._since.items() if now - since >= self.patience}

    def stubborn(self, now: float) -> set[str]:
        """Those of them that have been broken for so long that waiting does not help."""
        return {topic for topic, since in self._since.items() if now - since >= STUBBORN}

    def _host(self, topic: str, hosts: Mapping[str, Host]) -> Host | None:
        return hosts.get(self._knowledge.assignment.hosts.get(topic, ""))


def _now(document: EdgeTopic, seen: Seen | None, host: Host | None) -> Topic:
    topic = document.placed
    if seen is None or host is None:
        return topic
    rate = topic.rate if seen.rate is None or _chance(topic.rate, seen.rate, seen.span) else max(QUIETEST, seen.rate)
    interval = topic.interval if not seen.interval else seen.interval * host.speed
    return replace(topic, rate=rate, interval=interval)


def _chance(expected: float, seen: float, span: float) -> bool:
    """May as many messages as were seen have come by chance at the rate that is expected?

    >>> _chance(2.5, 5.0, span=5.0), _chance(2.5, 7.5, span=5.0), _chance(25, 40, span=5.0)
    (True, False, False)
    """
    return abs(seen - expected) * span <= SURE * math.sqrt(expected * span)


def _worst(reports: Mapping[str, Report], topic: str) -> float | None:
    p90 = [report.topics[topic].p90 for report in reports.values() if topic in report.topics]
    return max((one for one in p90 if one is not None), default=None)
