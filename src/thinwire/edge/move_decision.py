"""Which topics move: as few as possible, and only where the model expects that it helps.

A host whose promise is broken gives a topic away, or swaps one, so that what is expected of both hosts gets better; the
cost of a host is that of `thinwire.placement.load_balance`. A move disturbs its topic for a moment, so the gain must be
worth it. Topics whose host is gone are placed first.

What a controller makes of reports: topics as they are now, and promises that have been broken for a while.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from thinwire.edge.edge_documents import EdgeReport, EdgeTopic, Seen
from thinwire.edge.edge_state import EdgeState
from thinwire.placement import Host, Rising, TopicLoad
from thinwire.placement.load_balance import SHARPNESS

WORTH = 0.9
"""share of the cost before that every move must bring it down to"""
MOST = 2
"""changes of one host in one decision"""
PARTNERS = 12
"""hosts with which a host exchanges topics, the least strained ones"""
ROOMY = 0.8
"""share of every promise that must be enough before a host is emptied"""

Placed = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class EdgeView:
    """The edge at one moment.

    topics: as they are now, with the rate and the interval that were seen; hosts: those that are there
    at: the host of every topic, there or not; pinned: topics that no other host may have
    """

    topics: Mapping[str, TopicLoad]
    hosts: Mapping[str, Host]
    at: Mapping[str, str]
    pinned: frozenset[str] = frozenset()

    def placed(self) -> Placed:
        """The topics of every host that is there."""
        return {host: tuple(sorted(t for t in self.topics if self.at.get(t) == host)) for host in self.hosts}


class Decider:
    """Decides by a model, at most k topics on a host."""

    def __init__(self, model: Rising, k: int) -> None:
        self.model, self.k = model, k

    def moves(self, view: EdgeView, broken: Iterable[str], stubborn: Collection[str] = ()) -> dict[str, str]:
        """Topics and the hosts they shall go to, because of promises that are broken and of hosts that are gone.

        A host that the model expects to do well has had a bad moment, or works off what was left to do, and is let be;
        unless one of its topics is `stubborn`: then it is the model that errs.
        """
        placed = view.placed()
        if not placed:
            return {}
        self._house(view, placed)
        troubled = {
            host
            for host in {view.at.get(topic, "") for topic in broken} & placed.keys()
            if self._strained(view, placed, host) or not set(stubborn).isdisjoint(placed[host])
        }
        for host in sorted(troubled, key=lambda name: -self.cost(view, name, placed[name])):
            for _ in range(MOST):
                if not self._relieve(view, placed, host) or not self._strained(view, placed, host):
                    break
        return _changed(view, placed)

    def saves(self, view: EdgeView) -> dict[str, str]:
        """Moves that empty a host, with every promise kept by a good margin; none where no host can be spared."""
        placed = view.placed()
        for spared in sorted((h for h in placed if placed[h]), key=lambda name: _load(view, placed[name])):
            rest: Placed = {host: topics for host, topics in placed.items() if host != spared and topics}
            if rest and not view.pinned & set(placed[spared]) and self._packed(view, rest, placed[spared]):
                return _changed(view, {**rest, spared: ()})
        return {}

    def cost(self, view: EdgeView, host: str, topics: Iterable[str]) -> float:
        """How strained a host would be with these topics; one above its promise outweighs many below."""
        strains = self.strains(view, host, topics)
        return float((np.minimum(strains, 1e5) ** SHARPNESS).sum())

    def strains(self, view: EdgeView, host: str, topics: Iterable[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The expected p90 of each topic, with its margin, as a share of its promise."""
        here = [view.topics[topic] for topic in topics]
        if not here:
            return np.zeros(0)
        return np.asarray(self.model.bound(here, view.hosts[host]) / np.array([topic.promise for topic in here]))

    def _strained(self, view: EdgeView, placed: Placed, host: str) -> bool:
        return bool(self.strains(view, host, placed[host]).max(initial=0.0) > 1)

    def _house(self, view: EdgeView, placed: Placed) -> None:
        """Give topics without a host one, the heaviest first; too full a host is better than none."""
        homeless = [t for t in view.topics if view.at.get(t) not in placed and t not in view.pinned]
        for topic in sorted(homeless, key=lambda name: (-view.topics[name].load, name)):
            roomy = [host for host in placed if len(placed[host]) < self.k] or list(placed)
            best = min(roomy, key=lambda host: (self._added(view, placed, host, topic), host))
            placed[best] = (*placed[best], topic)

    def _added(self, view: EdgeView, placed: Placed, host: str, topic: str) -> float:
        return self.cost(view, host, (*placed[host], topic)) - self.cost(view, host, placed[host])

    def _relieve(self, view: EdgeView, placed: Placed, host: str) -> bool:
        """Make the best change with another host, if it is worth it."""
        own = self.cost(view, host, placed[host])
        costs = {name: self.cost(view, name, topics) for name, topics in placed.items() if name != host}
        best, chosen = 1.0, None
        for other in sorted(costs, key=lambda name: (costs[name], name))[:PARTNERS]:
            for ours, theirs in self._changes(view, placed[host], placed[other]):
                after = self.cost(view, host, ours) + self.cost(view, other, theirs)
                moved = len(set(ours) - set(placed[host])) + 1
                share = after / (own + costs[other]) / WORTH**moved
                if share < best:
                    best, chosen = share, (other, ours, theirs)
        if chosen is not None:
            other, placed[host], placed[other] = chosen
        return chosen is not None

    def _changes(
        self, view: EdgeView, own: tuple[str, ...], others: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """What both hosts would have after every move and every swap."""
        free = [topic for topic in own if topic not in view.pinned]
        for given in free:
            left = tuple(topic for topic in own if topic != given)
            if len(others) < self.k:
                yield left, (*others, given)
            for taken in others:
                if taken not in view.pinned:
                    yield (*left, taken), (*(topic for topic in others if topic != taken), given)

    def _packed(self, view: EdgeView, rest: Placed, topics: tuple[str, ...]) -> bool:
        """Put topics onto the other hosts as long as every promise has room; False where that fails."""
        for topic in sorted(topics, key=lambda name: -view.topics[name].load):
            roomy = [host for host in rest if len(rest[host]) < self.k]
            worst = {host: float(self.strains(view, host, (*rest[host], topic)).max()) for host in roomy}
            best = min(worst, key=lambda host: (worst[host], host), default="")
            if not best or worst[best] > ROOMY:
                return False
            rest[best] = (*rest[best], topic)
        return True


def _load(view: EdgeView, topics: Iterable[str]) -> float:
    return sum(view.topics[topic].load for topic in topics)


def _changed(view: EdgeView, placed: Placed) -> dict[str, str]:
    now = {topic: host for host, topics in placed.items() for topic in topics}
    return {topic: host for topic, host in sorted(now.items()) if view.at.get(topic) != host}


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

    def __init__(self, knowledge: EdgeState, patience: float = 2.0) -> None:
        self.patience = patience
        self._state = knowledge
        self._since: dict[str, float] = {}

    def view(self, there: set[str], now: float) -> EdgeView:
        """Topics with the rates that were seen, on the hosts that are there."""
        known = self._state
        hosts = {name: known.hosts[name].placed for name in sorted(there & known.hosts.keys())}
        seen = self.seen(now)
        needed = known.needed()
        topics = {name: _now(known.topics[name], seen.get(name), self._host(name, hosts)) for name in sorted(needed)}
        pinned = frozenset(name for name in needed if known.topics[name].host)
        return EdgeView(topics, hosts, dict(known.assignment.hosts), pinned)

    def seen(self, now: float) -> dict[str, Seen]:
        """What the host of each topic saw of it; the p90 is the worst that anybody reported."""
        found: dict[str, Seen] = {}
        fresh = {name: report for name, (report, came) in self._state.reports.items() if now - came < STALE}
        for topic, host in self._state.assignment.hosts.items():
            if host in fresh and topic in fresh[host].topics:
                found[topic] = replace(fresh[host].topics[topic], p90=_worst(fresh, topic))
        return found

    def broken(self, now: float) -> set[str]:
        """Topics whose promise has been broken for as long as patience lasts; to be asked again and again."""
        late = {
            topic
            for topic, seen in self.seen(now).items()
            if topic in self._state.topics and (seen.p90 or 0.0) > self._state.topics[topic].promise
        }
        self._since = {topic: self._since.get(topic, now) for topic in late}
        return {topic for topic, since in self._since.items() if now - since >= self.patience}

    def stubborn(self, now: float) -> set[str]:
        """Those of them that have been broken for so long that waiting does not help."""
        return {topic for topic, since in self._since.items() if now - since >= STUBBORN}

    def _host(self, topic: str, hosts: Mapping[str, Host]) -> Host | None:
        return hosts.get(self._state.assignment.hosts.get(topic, ""))


def _now(document: EdgeTopic, seen: Seen | None, host: Host | None) -> TopicLoad:
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


def _worst(reports: Mapping[str, EdgeReport], topic: str) -> float | None:
    p90 = [report.topics[topic].p90 for report in reports.values() if topic in report.topics]
    return max((one for one in p90 if one is not None), default=None)
