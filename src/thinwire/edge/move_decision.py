"""Decides which topics move: as few as possible, and only if the latency model predicts an improvement.

A host whose latency limit is violated moves a topic to another host, or swaps one, if that lowers the predicted cost of
both; the cost of a host is defined in `thinwire.placement.load_balance`. A move interrupts its topic for a moment, so
the improvement must exceed a threshold. Topics of stopped hosts are placed first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from thinwire.edge.edge_documents import EdgeTopic, TopicMeasurements
from thinwire.edge.edge_state import EdgeState
from thinwire.placement import Host, MonotoneModel, TopicLoad
from thinwire.placement.hosts import Vector
from thinwire.placement.load_balance import SHARPNESS

MAX_COST_RATIO = 0.9
"""cost after a move relative to the cost before, at most"""
MAX_CHANGES = 2
"""changes of one host in one decision"""
MAX_PARTNERS = 12
"""hosts considered for an exchange, those with the lowest cost"""
MAX_UTILISATION = 0.8
"""predicted latency relative to the limit, at most, after a host is emptied"""

Placement = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class EdgeView:
    """The state of the edge at one moment.

    topics: with measured rate and interval
    hosts: those that are running
    at: the assigned host of every topic, running or not
    pinned: topics that must stay on their host
    """

    topics: Mapping[str, TopicLoad]
    hosts: Mapping[str, Host]
    at: Mapping[str, str]
    pinned: frozenset[str] = frozenset()

    def unplaced(self) -> set[str]:
        """Return the topics without a running host that may be moved."""
        return {topic for topic in self.topics if self.at.get(topic) not in self.hosts} - self.pinned

    def placed(self) -> Placement:
        """Return the topics of every running host."""
        return {host: tuple(sorted(t for t in self.topics if self.at.get(t) == host)) for host in self.hosts}


class MoveDecider:
    """Decides by a latency model, with at most k topics on a host.

    placed: the topics of every running host; changed by the decision
    """

    def __init__(self, model: MonotoneModel, k: int, view: EdgeView) -> None:
        self.model, self.k, self.view = model, k, view
        self.placed = view.placed()

    def find_moves(self, violated: Iterable[str], persistent: Collection[str] = ()) -> dict[str, str]:
        """Return topics and their new hosts, because of violated limits and stopped hosts.

        If the model predicts that a host keeps its limits, the violation is temporary, such as a backlog, and nothing
        moves; unless one of its topics is `persistent`, which means that the model is wrong.
        """
        if not self.placed:
            return {}
        self._place_unplaced()
        overloaded = {
            host
            for host in {self.view.at.get(topic, "") for topic in violated} & self.placed.keys()
            if self._exceeds_limit(host) or not set(persistent).isdisjoint(self.placed[host])
        }
        for host in sorted(overloaded, key=lambda name: -self._cost(name, self.placed[name])):
            for _ in range(MAX_CHANGES):
                if not self._improve(host) or not self._exceeds_limit(host):
                    break
        return self._moves()

    def find_savings(self) -> dict[str, str]:
        """Return moves that empty a host and keep all latencies below `MAX_UTILISATION` of the limits, if possible."""
        before, topics = self.placed, self.view.topics
        loads = {host: sum(topics[topic].load for topic in held) for host, held in before.items() if held}
        for emptied in sorted(loads, key=loads.__getitem__):
            self.placed = {host: before[host] for host in loads if host != emptied}
            if self.placed and self.view.pinned.isdisjoint(before[emptied]) and self._pack(before[emptied]):
                return self._moves()
        return {}

    def _moves(self) -> dict[str, str]:
        now = {topic: host for host, topics in self.placed.items() for topic in topics}
        return {topic: host for topic, host in sorted(now.items()) if self.view.at.get(topic) != host}

    def _cost(self, host: str, topics: Iterable[str]) -> float:
        """Return the cost of a host with these topics. One topic above its limit outweighs many below."""
        return float((np.minimum(self._latency_ratios(host, topics), 1e5) ** SHARPNESS).sum())

    def _latency_ratios(self, host: str, topics: Iterable[str]) -> Vector:
        """Return the upper bound of the predicted p90 of each topic, relative to its limit."""
        here = [self.view.topics[topic] for topic in topics]
        if not here:
            return np.zeros(0)
        return np.asarray(self.model.bound(here, self.view.hosts[host]) / np.array([topic.promise for topic in here]))

    def _exceeds_limit(self, host: str) -> bool:
        return bool(self._latency_ratios(host, self.placed[host]).max(initial=0.0) > 1)

    def _place_unplaced(self) -> None:
        """Place topics without a running host, the heaviest first; on a full host if there is no other."""
        for topic in sorted(self.view.unplaced(), key=lambda name: (-self.view.topics[name].load, name)):
            candidates = [host for host in self.placed if len(self.placed[host]) < self.k] or self.placed
            best = min(candidates, key=lambda host: (self._added_cost(host, topic), host))
            self.placed[best] = (*self.placed[best], topic)

    def _added_cost(self, host: str, topic: str) -> float:
        return self._cost(host, (*self.placed[host], topic)) - self._cost(host, self.placed[host])

    def _improve(self, host: str) -> bool:
        """Make the best change with another host if it lowers the cost enough."""
        placed = self.placed
        own = self._cost(host, placed[host])
        costs = {name: self._cost(name, topics) for name, topics in placed.items() if name != host}
        best, chosen = 1.0, None
        for other in sorted(costs, key=lambda name: (costs[name], name))[:MAX_PARTNERS]:
            for ours, theirs in self._changes(placed[host], placed[other]):
                after = self._cost(host, ours) + self._cost(other, theirs)
                moved = len(set(ours) - set(placed[host])) + 1
                ratio = after / (own + costs[other]) / MAX_COST_RATIO**moved
                if ratio < best:
                    best, chosen = ratio, (other, ours, theirs)
        if chosen is not None:
            other, placed[host], placed[other] = chosen
        return chosen is not None

    def _changes(
        self, own: tuple[str, ...], others: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Yield the topics of both hosts after each possible move and swap."""
        pinned = self.view.pinned
        for moved in (topic for topic in own if topic not in pinned):
            rest = tuple(topic for topic in own if topic != moved)
            if len(others) < self.k:
                yield rest, (*others, moved)
            for swapped in others:
                if swapped not in pinned:
                    yield (*rest, swapped), (*(topic for topic in others if topic != swapped), moved)

    def _pack(self, topics: tuple[str, ...]) -> bool:
        """Place topics on the other hosts within `MAX_UTILISATION`; False if that is impossible."""
        for topic in sorted(topics, key=lambda name: -self.view.topics[name].load):
            candidates = {host: (*held, topic) for host, held in self.placed.items() if len(held) < self.k}
            worst = {host: float(self._latency_ratios(host, held).max()) for host, held in candidates.items()}
            best = min(worst, key=lambda host: (worst[host], host), default="")
            if not best or worst[best] > MAX_UTILISATION:
                return False
            self.placed[best] = candidates[best]
        return True


MIN_RATE = 0.01
"""messages per second that a topic counts for at least"""
SIGNIFICANCE = 4.0
"""standard deviations from the expected number of messages that count as a change; with three, one of many topics would
seem to have changed every few minutes"""
VIOLATED_AFTER = 2.0
"""seconds that a limit must be exceeded before the controller reacts"""
PERSISTENT_AFTER = 15.0
"""seconds after which a violation is not explained by a backlog"""
MAX_REPORT_AGE = 5.0
"""seconds for which a report is used"""


class EdgeMonitor:
    """The edge as hosts and subscribers report it."""

    def __init__(self, state: EdgeState) -> None:
        self._state = state
        self._violated_since: dict[str, float] = {}

    def view(self, running: set[str], now: float) -> EdgeView:
        """Return the topics with measured rates, on the running hosts."""
        state = self._state
        at, assigned = dict(state.assignment.hosts), sorted(state.assigned_topics())
        hosts = {name: state.hosts[name].placed for name in sorted(running & state.hosts.keys())}
        measured = self.measurements(now)
        topics = {
            name: _measured_load(state.topics[name], measured.get(name), hosts.get(at[name])) for name in assigned
        }
        return EdgeView(topics, hosts, at, frozenset(name for name in assigned if state.topics[name].host))

    def measurements(self, now: float) -> dict[str, TopicMeasurements]:
        """Return the measurements of each topic by its host, with the worst p90 of all reports."""
        found: dict[str, TopicMeasurements] = {}
        reports = self._state.reports.items()
        fresh = {name: report.topics for name, (report, received) in reports if now - received < MAX_REPORT_AGE}
        for topic, host in self._state.assignment.hosts.items():
            if topic in fresh.get(host, ()):
                p90 = [topics[topic].p90 for topics in fresh.values() if topic in topics]
                worst = max((latency for latency in p90 if latency is not None), default=None)
                found[topic] = replace(fresh[host][topic], p90=worst)
        return found

    def find_violated(self, now: float) -> set[str]:
        """Return the topics whose limit has been exceeded for `VIOLATED_AFTER` seconds. Call it at every decision."""
        violated = {
            topic
            for topic, measured in self.measurements(now).items()
            if topic in self._state.topics and (measured.p90 or 0.0) > self._state.topics[topic].promise
        }
        self._violated_since = {topic: self._violated_since.get(topic, now) for topic in violated}
        return {topic for topic, since in self._violated_since.items() if now - since >= VIOLATED_AFTER}

    def find_persistent(self, now: float) -> set[str]:
        """Return the topics whose limit has been violated for longer than a backlog explains."""
        return {topic for topic, since in self._violated_since.items() if now - since >= PERSISTENT_AFTER}


def _measured_load(document: EdgeTopic, measured: TopicMeasurements | None, host: Host | None) -> TopicLoad:
    topic = document.placed
    if measured is None or host is None:
        return topic
    rate = topic.rate
    if measured.rate is not None and not _is_plausible(topic.rate, measured.rate, measured.span):
        rate = max(MIN_RATE, measured.rate)
    interval = topic.interval if not measured.interval else measured.interval * host.speed
    return replace(topic, rate=rate, interval=interval)


def _is_plausible(expected: float, measured: float, span: float) -> bool:
    """Return whether the measured rate is a random deviation from the expected one.

    >>> _is_plausible(2.5, 5.0, span=5.0), _is_plausible(2.5, 7.5, span=5.0), _is_plausible(25, 40, span=5.0)
    (True, False, False)
    """
    return abs(measured - expected) * span <= SIGNIFICANCE * math.sqrt(expected * span)
