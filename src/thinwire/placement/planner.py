"""Placement of topics on hosts: as few hosts as possible, every latency limit kept with a margin, and a lower bound.

Hosts may be of several kinds: the strongest kind is filled first, and the topics of each kind are balanced later. A
topic that exceeds its limit even alone on a host is split: its publishers are divided among parts, each with a share of
the rate. If a single message takes longer than the limit, splitting does not help and an error is raised.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import NamedTuple

import numpy as np

from thinwire.errors import ConfigError, LatencyLimitUnreachable, NotEnoughHosts
from thinwire.placement.column_generation import BUDGET, Relaxation, best_bound, dive, relax
from thinwire.placement.feasibility import HostFeasibility
from thinwire.placement.heuristics import Shared, fewest, first_fit
from thinwire.placement.hosts import Host, TopicLoad, bucketed, check_together, columns
from thinwire.placement.latency_model import LatencyModel, MonotoneModel
from thinwire.placement.load_balance import balanced


def place_on_mixed_hosts(
    topics: Sequence[TopicLoad], hosts: Sequence[Host], model: MonotoneModel, k: int, budget: int
) -> list[tuple[Host, Shared]]:
    """Place topics on hosts of several kinds: the strongest kind takes the heaviest topics first."""
    left = list(range(len(topics)))
    placed: list[tuple[Host, Shared]] = []
    for host in sorted(hosts, key=lambda host: (host.cores * host.speed, host.name), reverse=True):
        every = HostFeasibility(model, host, topics)
        alone = every.violations_alone()
        fitting = [topic for topic in left if alone[every.types[topic]] <= 0]
        if not fitting:
            continue
        feasibility = HostFeasibility(model, host, [topics[topic] for topic in fitting])
        if host.count is None:
            groups = dive(feasibility, k, relax(feasibility, k, budget=budget))
        else:
            groups = first_fit(feasibility, k)[: host.count]  # the heaviest topics
        taken = [fitting[place] for group in groups for place in group]
        places = iter(range(len(taken)))
        own = [tuple(islice(places, len(group))) for group in groups]
        feasibility = HostFeasibility(model, host, [topics[topic] for topic in taken])
        placed += [(host, tuple(taken[place] for place in group)) for group in balanced(feasibility, own, k)]
        left = sorted(set(left).difference(taken))
    if left:
        raise NotEnoughHosts(hosts=len(placed), topics_left=len(left), first=topics[left[0]].name)
    return placed


def lower_bound(topics: Sequence[TopicLoad], hosts: Sequence[Host], model: MonotoneModel, k: int, budget: int) -> int:
    """Return a lower bound: all hosts get the best properties of every kind."""
    best = Host(
        "best",
        cores=max(host.cores for host in hosts),
        speed=max(host.speed for host in hosts),
        contention=min(host.contention for host in hosts),
        overhead=min(host.overhead for host in hosts),
    )
    return relax(HostFeasibility(model, best, bucketed(topics, up=False)), k, budget=budget).bound


MAX_PARTS = 1024


class TopicSplit(NamedTuple):
    """Smallest number of parts of a topic that keeps its limit.

    parts: 1 if no split is needed, None if no number of parts is enough
    bound: p90 of a part with the margin, in seconds; of the unsplit topic if no number is enough
    """

    topic: TopicLoad
    parts: int | None
    bound: float


def split(topic: TopicLoad, hosts: Sequence[Host], model: LatencyModel) -> TopicSplit:
    """Return the smallest number of parts over all kinds of hosts."""
    options = [_on(topic, host, model) for host in hosts]
    return min(options, key=lambda option: (option.parts or inf, option.bound))


def _on(topic: TopicLoad, host: Host, model: LatencyModel) -> TopicSplit:
    """Find the number of parts by bisection; latency is monotone in the rate."""
    numbers = range(1, MAX_PARTS + 1)
    refused = bisect_left(numbers, True, key=lambda parts: _bound(topic, parts, host, model) <= topic.promise)
    parts = numbers[refused] if refused < MAX_PARTS else None
    return TopicSplit(topic, parts, _bound(topic, parts or 1, host, model))


def _bound(topic: TopicLoad, parts: int, host: Host, model: LatencyModel) -> float:
    logs = model.logs(*columns([[topic.part(parts)]], host), host)
    return float(np.exp(model.bounds(logs)[0, 0]))


MAX_TOPICS = 100_000
MAX_EXHAUSTIVE = 9
"""largest number of topics for an exhaustive search if the bound is not reached"""


@dataclass(frozen=True)
class HostAssignment:
    """A host and its topics.

    p90, bounds: predicted p90 of each topic, without and with the margin, in seconds
    """

    host: str
    kind: Host
    topics: tuple[str, ...]
    p90: tuple[float, ...]
    bounds: tuple[float, ...]


@dataclass(frozen=True)
class PlacementPlan:
    """A placement of topics on hosts.

    lower_bound: no placement that is feasible under this model needs fewer hosts
    complete: whether the bound is the best one
    """

    assignments: tuple[HostAssignment, ...]
    lower_bound: int
    complete: bool
    k: int

    @property
    def gap(self) -> int:
        """Largest number of hosts that could be saved."""
        return len(self.assignments) - self.lower_bound

    def assignment_of(self, topic: str) -> HostAssignment:
        """Return the assignment of a topic."""
        for assignment in self.assignments:
            if topic in assignment.topics:
                return assignment
        raise ConfigError("no such topic in this placement", topic=topic)


def propose(
    topics: Sequence[TopicLoad], hosts: Sequence[Host], model: MonotoneModel, k: int, *, budget: int = BUDGET
) -> PlacementPlan:
    """Return a placement with few hosts; latencies are predicted for the unrounded rates."""
    _check(topics, hosts, model, check_together(k))
    if not topics:
        return PlacementPlan((), 0, True, k)
    rounded = bucketed(topics)
    if len(hosts) > 1:
        shared = place_on_mixed_hosts(rounded, hosts, model, k, budget)
        bound, complete = lower_bound(topics, hosts, model, k, budget), False
    else:
        feasibility = HostFeasibility(model, hosts[0], rounded)
        groups, relaxed = _solved(feasibility, k, budget)
        shared, complete = [(hosts[0], group) for group in groups], relaxed.complete and rounded == list(topics)
        if rounded != list(topics):  # rates rounded up would not give a valid bound
            feasibility = HostFeasibility(model, hosts[0], bucketed(topics, up=False))
            relaxed = relax(feasibility, k, budget=budget)
        bound = best_bound(feasibility, k, relaxed, budget=budget)
    plan = PlacementPlan(_assignments(topics, shared, model), bound, complete, k)
    available = sum(inf if host.count is None else host.count for host in hosts)
    if len(plan.assignments) > available:
        raise NotEnoughHosts(hosts=available, needed=len(plan.assignments), lower_bound=bound)
    return plan


def tightened(
    topics: Sequence[TopicLoad],
    hosts: Sequence[Host],
    model: MonotoneModel,
    k: int,
    shares: Sequence[float] = (0.5, 0.25),
) -> dict[float, int | None]:
    """Return the number of hosts if every limit is multiplied by a share; None if a topic cannot keep it."""
    found: dict[float, int | None] = {}
    unlimited = [replace(host, count=None) for host in hosts]
    for share in shares:
        harder = [replace(topic, promise=topic.promise * share) for topic in topics]
        try:
            found[share] = len(propose(harder, unlimited, model, k, budget=BUDGET // 10).assignments)
        except LatencyLimitUnreachable:
            found[share] = None
    return found


def _solved(feasibility: HostFeasibility, k: int, budget: int) -> tuple[list[Shared], Relaxation]:
    """Solve and balance; use the exhaustive search for small inputs that miss the bound."""
    relaxed = relax(feasibility, k, budget=budget)
    placed = dive(feasibility, k, relaxed)
    if len(placed) > relaxed.bound and len(feasibility.types) <= MAX_EXHAUSTIVE:
        placed = fewest(feasibility, k)
        relaxed = replace(relaxed, bound=len(placed), complete=True)
    return balanced(feasibility, placed, k, least=relaxed.bound), relaxed


def _check(topics: Sequence[TopicLoad], hosts: Sequence[Host], model: MonotoneModel, k: int) -> None:
    if len(topics) > MAX_TOPICS:
        raise ConfigError("too many topics at once", field="topics", value=len(topics), limit=MAX_TOPICS)
    if not hosts:
        raise ConfigError("no hosts", field="hosts", lowest=1)
    for what, names in (("topic", [t.name for t in topics]), ("host", [h.name for h in hosts])):
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise ConfigError("duplicate name", field=what, name=twice[0])
    for topic in {(t.rate, t.interval, t.promise): t for t in topics}.values():
        result = split(topic, hosts, model)
        if result.parts != 1:
            alone = round(min(float(model.bound([topic], host)[0]) for host in hosts), 4)
            raise LatencyLimitUnreachable(topic=topic.name, promise=topic.promise, alone=alone, parts=result.parts)


def _assignments(
    topics: Sequence[TopicLoad], shared: Sequence[tuple[Host, Shared]], model: MonotoneModel
) -> tuple[HostAssignment, ...]:
    """Return the named hosts with the predictions for the unrounded rates."""
    numbers: Counter[str] = Counter()
    assignments = []
    for host, group in shared:
        if not group:
            continue
        numbers[host.name] += 1
        here = [topics[topic] for topic in sorted(group)]
        p90, bounds = model.p90(here, host), model.bound(here, host)
        names = tuple(topic.name for topic in here)
        name = host.name if host.count == 1 else f"{host.name}-{numbers[host.name]}"
        assignments.append(HostAssignment(name, host, names, tuple(p90.tolist()), tuple(bounds.tolist())))
    return tuple(assignments)
