"""Hosts of several kinds: the strongest first, each filled as far as promises allow, then balanced kind by kind.

A topic that cannot keep its promise even with a host to itself: into how many parts must it be cut?

Its publishers are dealt to parts, each a topic of its own with a share of the rate. Where even a single message takes
longer than the promise, cutting does not help and that is said.

Topics on hosts: as few hosts as possible, every promise kept with its margin, and the bound beside it.

>>> from thinwire.placement.latency_model import fit_rising
>>> from thinwire.placement.queue_simulator import random_runs
>>> runs = [run for k in (1, 2) for run in random_runs(60, k, seed=1, seconds=20)]
>>> model = fit_rising(runs[::2], runs[1::2], rounds=30)
>>> gps = [TopicLoad(f"region-{n}.gps", rate=4, interval=0.01) for n in range(4)]
>>> plan = propose(gps, [Host()], model, k=2)
>>> [seat.topics for seat in plan.seats], plan.lower_bound
([('region-0.gps', 'region-1.gps'), ('region-2.gps', 'region-3.gps')], 2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from thinwire.errors import ConfigError, NotEnoughHosts, PromiseOutOfReach
from thinwire.placement.column_generation import BUDGET, Relaxed, dive, proved, relax
from thinwire.placement.feasibility import HostFeasibility
from thinwire.placement.heuristics import Shared, fewest, first_fit
from thinwire.placement.hosts import Host, TopicLoad, bucketed, check_together, columns
from thinwire.placement.latency_model import LatencyModel, Rising
from thinwire.placement.load_balance import balanced


def mixed(
    topics: Sequence[TopicLoad], hosts: Sequence[Host], model: Rising, k: int, budget: int
) -> list[tuple[Host, Shared]]:
    """Topics on hosts of several kinds: the strongest kind takes the hottest topics, the next what is left."""
    left = list(range(len(topics)))
    placed: list[tuple[Host, Shared]] = []
    for host in sorted(hosts, key=_strength, reverse=True):
        every = HostFeasibility(model, host, topics)
        alone = every.alone()
        fitting = [topic for topic in left if alone[every.of[topic]] <= 0]
        judge = HostFeasibility(model, host, [topics[topic] for topic in fitting])
        groups = [tuple(fitting[place] for place in group) for group in _groups(judge, host, k, budget)]
        placed += [(host, group) for group in _spread(topics, groups, host, model, k)]
        taken = {topic for group in groups for topic in group}
        left = [topic for topic in left if topic not in taken]
    if left:
        raise NotEnoughHosts(hosts=len(placed), topics_left=len(left), first=topics[left[0]].name)
    return placed


def lower_bound(topics: Sequence[TopicLoad], hosts: Sequence[Host], model: Rising, k: int, budget: int) -> int:
    """No fewer hosts would do even if all of them had the best of every kind."""
    best = Host(
        "best",
        cores=max(host.cores for host in hosts),
        speed=max(host.speed for host in hosts),
        contention=min(host.contention for host in hosts),
        overhead=min(host.overhead for host in hosts),
    )
    return relax(HostFeasibility(model, best, bucketed(topics, up=False)), k, budget=budget).bound


def _strength(host: Host) -> tuple[float, str]:
    return host.cores * host.speed, host.name


def _groups(judge: HostFeasibility, host: Host, k: int, budget: int) -> list[Shared]:
    """Topics that share a host of this kind; where such hosts are few, the hottest ones, which fit nowhere else."""
    if not judge.of:
        return []
    if host.count is None:
        return dive(judge, k, relax(judge, k, budget=budget))
    return first_fit(judge, k)[: host.count]


def _spread(topics: Sequence[TopicLoad], groups: list[Shared], host: Host, model: Rising, k: int) -> list[Shared]:
    """The groups of one kind of host, balanced among themselves."""
    members = [topic for group in groups for topic in group]
    if not members:
        return []
    judge = HostFeasibility(model, replace(host, count=None), [topics[topic] for topic in members])
    places = {topic: place for place, topic in enumerate(members)}
    own = [tuple(places[topic] for topic in group) for group in groups]
    return [tuple(members[place] for place in group) for group in balanced(judge, own, k)]


MAX_PARTS = 1024


class TopicSplit(NamedTuple):
    """What would help a topic.

    parts: how many parts keep the promise, 1 where it keeps it whole; None where no number does
    bound: the p90 of a part with the margin, in seconds; of the whole topic where no number of parts helps
    """

    topic: TopicLoad
    parts: int | None
    bound: float


def split(topic: TopicLoad, hosts: Sequence[Host], model: LatencyModel) -> TopicSplit:
    """The fewest parts that keep the promise on the host that suits it best."""
    options = [_on(topic, host, model) for host in hosts]
    kept = [option for option in options if option.parts is not None]
    if kept:
        return min(kept, key=lambda option: (option.parts or 0, option.bound))
    return min(options, key=lambda option: option.bound)


def parts_of(topic: TopicLoad, parts: int) -> list[TopicLoad]:
    """The parts, each under a name of its own."""
    part = topic.part(parts)
    return [TopicLoad(f"{topic.name}/{n + 1}", part.rate, part.interval, part.promise) for n in range(parts)]


def all_split(topics: Sequence[TopicLoad], hosts: Sequence[Host], model: LatencyModel) -> list[TopicLoad]:
    """The topics, those in parts that cannot keep their promise whole; what no parts help stays as it is."""
    known: dict[tuple[float, float, float], int] = {}
    found: list[TopicLoad] = []
    for topic in topics:
        key = (topic.rate, topic.interval, topic.promise)
        if key not in known:
            known[key] = split(topic, hosts, model).parts or 1
        found += parts_of(topic, known[key]) if known[key] > 1 else [topic]
    return found


def _on(topic: TopicLoad, host: Host, model: LatencyModel) -> TopicSplit:
    """By halving: fewer messages never wait longer."""
    if _bound(topic, MAX_PARTS, host, model) > topic.promise:
        return TopicSplit(topic, None, _bound(topic, 1, host, model))
    low, high = 0, MAX_PARTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _bound(topic, middle, host, model) <= topic.promise else (middle, high)
    return TopicSplit(topic, high, _bound(topic, high, host, model))


def _bound(topic: TopicLoad, parts: int, host: Host, model: LatencyModel) -> float:
    logs = model.logs(*columns([[topic.part(parts)]], host), host)
    return float(np.exp(model.bounds(logs)[0, 0]))


MAX_TOPICS = 100_000
HANDFUL = 9
"""topics of which every way to share hosts is looked at, where anything else leaves a gap"""


@dataclass(frozen=True)
class HostAssignment:
    """One host and its topics.

    p90, bounds: what is expected of each topic, and the same with the margin, in seconds
    """

    host: str
    kind: Host
    topics: tuple[str, ...]
    p90: tuple[float, ...]
    bounds: tuple[float, ...]


@dataclass(frozen=True)
class PlacementPlan:
    """A placement.

    lower_bound: no placement that this model allows needs fewer hosts
    complete: was everything looked at that the bound needs? Else a better bound may exist
    """

    seats: tuple[HostAssignment, ...]
    lower_bound: int
    complete: bool
    k: int

    @property
    def gap(self) -> int:
        """Hosts that might be saved, at most."""
        return len(self.seats) - self.lower_bound

    def seat(self, topic: str) -> HostAssignment:
        """Where a topic is."""
        for seat in self.seats:
            if topic in seat.topics:
                return seat
        raise ConfigError("no such topic in this placement", topic=topic)


def propose(
    topics: Sequence[TopicLoad], hosts: Sequence[Host], model: Rising, k: int, *, budget: int = BUDGET
) -> PlacementPlan:
    """As few hosts as possible; every topic is checked again on the host it got."""
    _check(topics, hosts, model, check_together(k))
    if not topics:
        return PlacementPlan((), 0, True, k)
    rounded = bucketed(topics)
    if len(hosts) > 1:
        shared = mixed(rounded, hosts, model, k, budget)
        bound, complete = lower_bound(topics, hosts, model, k, budget), False
    else:
        judge = HostFeasibility(model, hosts[0], rounded)
        groups, relaxed = _solved(judge, k, budget)
        shared, complete = [(hosts[0], group) for group in groups], relaxed.complete and rounded == list(topics)
        bound = _bound_placing(topics, judge, relaxed, k, budget)
    plan = PlacementPlan(_seats(topics, shared, model), bound, complete, k)
    _enough(plan, hosts)
    return plan


def tightened(
    topics: Sequence[TopicLoad], hosts: Sequence[Host], model: Rising, k: int, shares: Sequence[float] = (0.5, 0.25)
) -> dict[float, int | None]:
    """Hosts needed if every promise were only this share of what it is; None where some topic could not keep it."""
    found: dict[float, int | None] = {}
    endless = [replace(host, count=None) for host in hosts]
    for share in shares:
        harder = [replace(topic, promise=topic.promise * share) for topic in topics]
        try:
            found[share] = len(propose(harder, endless, model, k, budget=BUDGET // 10).seats)
        except PromiseOutOfReach:
            found[share] = None
    return found


def _solved(judge: HostFeasibility, k: int, budget: int) -> tuple[list[Shared], Relaxed]:
    """Groups of topics, balanced; for a handful of topics the fewest there can be."""
    relaxed = relax(judge, k, budget=budget)
    placed = dive(judge, k, relaxed)
    if len(placed) > relaxed.bound and len(judge.of) <= HANDFUL:
        placed = fewest(judge, k)
        relaxed = replace(relaxed, bound=len(placed), complete=True)
    return balanced(judge, placed, k, least=relaxed.bound), relaxed


def _bound_placing(topics: Sequence[TopicLoad], judge: HostFeasibility, relaxed: Relaxed, k: int, budget: int) -> int:
    """Rates that were rounded up prove nothing about the topics as they are: for the bound they are rounded down."""
    if list(judge.topics) == list(topics):
        return proved(judge, k, relaxed, budget=budget)
    lower = HostFeasibility(judge.model, judge.host, bucketed(topics, up=False))
    return proved(lower, k, relax(lower, k, budget=budget), budget=budget)


def _check(topics: Sequence[TopicLoad], hosts: Sequence[Host], model: Rising, k: int) -> None:
    if len(topics) > MAX_TOPICS:
        raise ConfigError("too many topics at once", field="topics", value=len(topics), limit=MAX_TOPICS)
    if not hosts:
        raise ConfigError("there is no host to place on", field="hosts", lowest=1)
    for what, names in (("topic", [t.name for t in topics]), ("host", [h.name for h in hosts])):
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise ConfigError("two with the same name", field=what, name=twice[0])
    for topic in {(t.rate, t.interval, t.promise): t for t in topics}.values():
        helped = split(topic, hosts, model)
        if helped.parts != 1:
            raise PromiseOutOfReach(topic=topic.name, promise=topic.promise, alone=_alone(topic, hosts, model),
                                    parts=helped.parts)  # fmt: skip


def _alone(topic: TopicLoad, hosts: Sequence[Host], model: Rising) -> float:
    return round(min(float(model.bound([topic], host)[0]) for host in hosts), 4)


def _seats(
    topics: Sequence[TopicLoad], shared: Sequence[tuple[Host, Shared]], model: Rising
) -> tuple[HostAssignment, ...]:
    """Hosts by name, with what is expected of every topic as it is, not as it was rounded."""
    numbers: Counter[str] = Counter()
    seats = []
    for host, group in shared:
        if not group:
            continue
        numbers[host.name] += 1
        here = [topics[topic] for topic in sorted(group)]
        p90, bounds = model.p90(here, host), model.bound(here, host)
        names = tuple(topic.name for topic in here)
        name = host.name if host.count == 1 else f"{host.name}-{numbers[host.name]}"
        seats.append(HostAssignment(name, host, names, tuple(p90.tolist()), tuple(bounds.tolist())))
    return tuple(seats)


def _enough(plan: PlacementPlan, hosts: Sequence[Host]) -> None:
    if any(host.count is None for host in hosts):
        return
    there = sum(host.count or 0 for host in hosts)
    if len(plan.seats) > there:
        raise NotEnoughHosts(hosts=there, needed=len(plan.seats), lower_bound=plan.lower_bound)
