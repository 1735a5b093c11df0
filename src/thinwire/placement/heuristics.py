"""The fewest hosts for a handful of topics, by looking at everything: the reference the solvers are held against.

Maximum matching in any graph (Edmonds): the most pairs, each topic in one of them at most.

>>> matched(4, [(0, 1), (1, 2), (2, 3)])
[1, 0, 3, 2]
>>> matched(3, [(0, 1), (1, 2), (0, 2)]).count(-1)
1

The published heuristics: first fit, largest feasible set, and the two together.

Kept as they were described, to stand beside ours. First fit takes the topics by falling latency and so puts the hottest
together, on exactly the sets about which a model errs most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Literal

from thinwire.errors import ConfigError
from thinwire.placement.feasibility import HostFeasibility, Pattern, joined
from thinwire.placement.hosts import check_together


def matched(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """The partner of everyone, -1 for those who stay alone."""
    near: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    partner = [-1] * count
    for root in range(count):
        if partner[root] < 0:
            _augment(root, near, partner)
    return partner


def _augment(root: int, near: list[list[int]], partner: list[int]) -> None:
    """Look for a path from the root along which every pair can swap so that one more is matched."""
    count = len(near)
    parent, base = [-1] * count, list(range(count))
    seen = [False] * count
    seen[root] = True
    waiting = deque([root])
    while waiting:
        here = waiting.popleft()
        for there in near[here]:
            if base[here] == base[there] or partner[here] == there:
                continue
            if there == root or (partner[there] >= 0 and parent[partner[there]] >= 0):
                _contract(here, there, root, parent, base, partner, seen, waiting)
            elif parent[there] < 0:
                parent[there] = here
                if partner[there] < 0:
                    _swap(there, parent, partner)
                    return
                seen[partner[there]] = True
                waiting.append(partner[there])


def _contract(
    a: int,
    b: int,
    root: int,
    parent: list[int],
    base: list[int],
    partner: list[int],
    seen: list[bool],
    waiting: deque[int],
) -> None:
    """An odd circle counts as one place from now on."""
    top = _common(a, b, root, parent, base, partner)
    circle: set[int] = set()
    _mark(a, top, b, parent, base, partner, circle)
    _mark(b, top, a, parent, base, partner, circle)
    for place in range(len(base)):
        if base[place] in circle:
            base[place] = top
            if not seen[place]:
                seen[place] = True
                waiting.append(place)


def _common(a: int, b: int, root: int, parent: list[int], base: list[int], partner: list[int]) -> int:
    passed: set[int] = set()
    while True:
        a = base[a]
        passed.add(a)
        if a == root or partner[a] < 0:
            break
        a = parent[partner[a]]
    while base[b] not in passed:
        b = parent[partner[base[b]]]
    return base[b]


def _mark(
    place: int, top: int, child: int, parent: list[int], base: list[int], partner: list[int], circle: set[int]
) -> None:
    while base[place] != top:
        circle |= {base[place], base[partner[place]]}
        parent[place] = child
        child = partner[place]
        place = parent[partner[place]]


def _swap(place: int, parent: list[int], partner: list[int]) -> None:
    while place >= 0:
        before = parent[place]
        after = partner[before]
        partner[place], partner[before] = before, place
        place = after


Shared = tuple[int, ...]
"""topics that share a host, by number"""
Order = Literal["latency", "load"]

MAX_SETS = 200_000
"""sets that the largest feasible set may ask about before it gives up"""


def first_fit(
    judge: HostFeasibility, k: int, topics: Iterable[int] | None = None, by: Order = "latency"
) -> list[Shared]:
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
    judge: HostFeasibility, k: int, topics: Iterable[int] | None = None, *, first: int | None = None
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


def pairs(judge: HostFeasibility, topics: Sequence[int]) -> list[Shared]:
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


def ordered(judge: HostFeasibility, topics: Iterable[int] | None, by: Order) -> list[int]:
    """Topics by falling latency alone, or by falling load."""
    weight = judge.alone() if by == "latency" else judge.loads
    chosen = range(len(judge.of)) if topics is None else topics
    return sorted(chosen, key=lambda topic: (-weight[judge.of[topic]], judge.of[topic], topic))


def _takes(judge: HostFeasibility, pattern: Pattern, kind: int, k: int) -> bool:
    return len(pattern) < k and judge.fits(joined(pattern, kind))


def _feasible(judge: HostFeasibility, topics: Sequence[int], size: int, budget: list[int]) -> Shared | None:
    return next(_extended(judge, topics, (), size, budget), None)


def _extended(
    judge: HostFeasibility, topics: Sequence[int], chosen: Shared, size: int, budget: list[int]
) -> Iterator[Shared]:
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


def _filled(judge: HostFeasibility, found: Shared, left: Sequence[int], k: int) -> Shared:
    held = list(found)
    for topic in left:
        if len(held) < k and topic not in held and judge.fits(judge.pattern((*held, topic))):
            held.append(topic)
    return tuple(held)


MAX_TOPICS = 14


def fewest(judge: HostFeasibility, k: int) -> list[Shared]:
    """A placement with the fewest hosts; every set of topics is built from a smaller one."""
    count = len(judge.of)
    if count > MAX_TOPICS:
        raise ConfigError("too many topics to look at everything", field="topics", value=count, limit=MAX_TOPICS)
    good = _feasible_heuristics(judge, check_together(k))
    best: dict[int, tuple[Shared, ...]] = {0: ()}
    for mask in range(1, 1 << count):
        lowest = mask & -mask
        options = (best[mask ^ part] + (shared,) for part, shared in good if part & lowest and part & mask == part)
        best[mask] = min(options, key=len)
    return list(best[(1 << count) - 1])


def _feasible_heuristics(judge: HostFeasibility, k: int) -> list[tuple[int, Shared]]:
    """Sets that keep their promises, as bits and as topics."""
    count = len(judge.of)
    every = [shared for size in range(1, k + 1) for shared in combinations(range(count), size)]
    judge.learn(judge.pattern(shared) for shared in every)
    kept = [shared for shared in every if judge.fits(judge.pattern(shared))]
    return [(sum(1 << topic for topic in shared), shared) for shared in kept]
