"""Hosts of several kinds: the strongest first, each filled as far as promises allow, then balanced kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thinwire.errors import NotEnoughHosts
from thinwire.placement.column_generation import dive, relax
from thinwire.placement.feasibility_judge import Judge
from thinwire.placement.heuristics_greedy import Shared, first_fit
from thinwire.placement.hosts import bucketed
from thinwire.placement.hosts_topics import Host, Topic
from thinwire.placement.latency_model_models import Rising
from thinwire.placement.load_balance import balanced


def mixed(
    topics: Sequence[Topic], hosts: Sequence[Host], model: Rising, k: int, budget: int
) -> list[tuple[Host, Shared]]:
    """Topics on hosts of several kinds: the strongest kind takes the hottest topics, the next what is left."""
    left = list(range(len(topics)))
    placed: list[tuple[Host, Shared]] = []
    for host in sorted(hosts, key=_strength, reverse=True):
        every = Judge(model, host, topics)
        alone = every.alone()
        fitting = [topic for topic in left if alone[every.of[topic]] <= 0]
        judge = Judge(model, host, [topics[topic] for topic in fitting])
        groups = [tuple(fitting[place] for place in group) for group in _groups(judge, host, k, budget)]
        placed += [(host, group) for group in _spread(topics, groups, host, model, k)]
        taken = {topic for group in groups for topic in group}
        left = [topic for topic in left if topic not in taken]
    if left:
        raise NotEnoughHosts(hosts=len(placed), topics_left=len(left), first=topics[left[0]].name)
    return placed


def lower_bound(topics: Sequence[Topic], hosts: Sequence[Host], model: Rising, k: int, budget: int) -> int:
    """No fewer hosts would do even if all of them had the best of every kind."""
    best = Host(
        "best",
        cores=max(host.cores for host in hosts),
        speed=max(host.speed for host in hosts),
        contention=min(host.contention for host in hosts),
        overhead=min(host.overhead for host in hosts),
    )
    return relax(Judge(model, best, bucketed(topics, up=False)), k, budget=budget).bound


def _strength(host: Host) -> tuple[float, str]:
    return host.cores * host.speed, host.name


def _groups(judge: Judge, host: Host, k: int, budget: int) -> list[Shared]:
    """Topics that share a host of this kind; where such hosts are few, the hottest ones, which fit nowhere else."""
    if not judge.of:
        return []
    if host.count is None:
        return dive(judge, k, relax(judge, k, budget=budget))
    return first_fit(judge, k)[: host.count]


def _spread(topics: Sequence[Topic], groups: list[Shared], host: Host, model: Rising, k: int) -> list[Shared]:
    """The groups of one kind of host, balanced among themselves."""
    members = [topic for group in groups for topic in group]
    if not members:
        return []
    judge = Judge(model, replace(host, count=None), [topics[topic] for topic in members])
    places = {topic: place for place, topic in enumerate(members)}
    own = [tuple(places[topic] for topic in group) for group in groups]
    return [tuple(members[place] for place in group) for group in balanced(judge, own, k)]
