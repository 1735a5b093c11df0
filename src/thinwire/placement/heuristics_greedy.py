"""The published heuristics: first fit, largest feasible set, and the two together.

Kept as they were described, to stand beside ours. First fit takes the topics by falling latency and so puts the hottest
together, on exactly the sets about which a model errs most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Literal

from thinwire.errors import ConfigError
from thinwire.placement.feasibility_judge import Judge, Pattern, joined
from thinwire.placement.heuristics_matching import matched
from thinwire.placement.hosts_topics import check_together

Shared = tuple[int, ...]
"""topics that share a host, by number"""
Order = Literal["latency", "load"]

MAX_SETS = 200_000
"""sets that the largest feasible set may ask about before it gives up"""


def first_fit(judge: Judge, k: int, topics: Iterable[int] | None = None, by: Order = "latency") -> list[Shared]:
    """Each topic, hottest first, goes to the first host that can take it."""
    hosts: list[list[int]] = []
    kinds: list[Pattern] = []
    before, start = -1, 0
    for topic in ordered(judge, topics, by):
        kind = judge.of[topic]
        if kind != before:
            before, start = kind, 0
            judge.learn({joined(pattern, kind) for pattern in kinds if len(pattern) < check_together(k)})
        # a host that refused a topic of this type is the same as it was, so the next one starts behind it
        start = next((n for n in range(start, len(hosts)) if _takes(judge, kinds[n], kind, k)), len(hosts))
        if start == len(hosts):
            hosts.append([])
            kinds.append(())
        hosts[start].append(topic)
        kinds[start] = joined(kinds[start], kind)
    return [tuple(host) for host in hosts]


def largest_sets(
    judge: Judge, k: int, topics: Iterable[int] | None = None, *, first: int | None = None
) -> list[Shared]:
    """Any feasible set as large as can be, then the next; pairs are matched so that most of them find a partner.

    first: begin with sets of this many topics and fill them up with first fit (the hybrid); k where it is not given
    """
    check_together(k)
    left = ordered(judge, topics, "latency")
    size = k if first is None else min(first, k)
    budget = [MAX_SETS]
    placed: list[Shared] = []
    if first is not None:
        while left and (found := _feasible(judge, left, size, budget)):
            placed.append(_filled(judge, found, left, k))
            left = [topic for topic in left if topic not in placed[-1]]
        size -= 1
    while left and size > 2:
        while found := _feasible(judge, left, size, budget):
            placed.append(found)
            left = [topic for topic in left if topic not in found]
        size -= 1
    return placed + (pairs(judge, left) if size == 2 else [(topic,) for topic in left])


def pairs(judge: Judge, topics: Sequence[int]) -> list[Shared]:
    """As many pairs as possible, the others alone: the fewest hosts when two may share one."""
    judge.learn({judge.pattern(pair) for pair in combinations(topics, 2)})
    edges = [
        (a, b)
        for a in range(len(topics))
        for b in range(a + 1, len(topics))
        if judge.fits(judge.pattern((topics[a], topics[b])))
    ]
    partner = matched(len(topics), edges)
    return [(topics[a],) if b < 0 else (topics[a], topics[b]) for a, b in enumerate(partner) if b < 0 or a < b]


def ordered(judge: Judge, topics: Iterable[int] | None, by: Order) -> list[int]:
    """Topics by falling latency alone, or by falling load."""
    weight = judge.alone() if by == "latency" else judge.loads
    chosen = range(len(judge.of)) if topics is None else topics
    return sorted(chosen, key=lambda topic: (-weight[judge.of[topic]], judge.of[topic], topic))


def _takes(judge: Judge, pattern: Pattern, kind: int, k: int) -> bool:
    return len(pattern) < k and judge.fits(joined(pattern, kind))


def _feasible(judge: Judge, topics: Sequence[int], size: int, budget: list[int]) -> Shared | None:
    return next(_extended(judge, topics, (), size, budget), None)


def _extended(judge: Judge, topics: Sequence[int], chosen: Shared, size: int, budget: list[int]) -> Iterator[Shared]:
    """Sets of this size that begin with the chosen ones; only feasible ones are taken further."""
    if len(chosen) == size:
        yield chosen
        return
    tried: set[int] = set()
    for place, topic in enumerate(topics):
        if judge.of[topic] in tried:
            continue
        tried.add(judge.of[topic])
        budget[0] -= 1
        if budget[0] < 0:
            raise ConfigError("too many sets to look through: take first fit or ours", field="sets", limit=MAX_SETS)
        if judge.fits(judge.pattern((*chosen, topic))):
            yield from _extended(judge, topics[place + 1 :], (*chosen, topic), size, budget)


def _filled(judge: Judge, found: Shared, left: Sequence[int], k: int) -> Shared:
    held = list(found)
    for topic in left:
        if len(held) < k and topic not in held and judge.fits(judge.pattern((*held, topic))):
            held.append(topic)
    return tuple(held)
