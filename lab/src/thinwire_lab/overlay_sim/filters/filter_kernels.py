"""Conjunctions over many sources, tick by tick: who asks whom, and what comes true."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part

FIELDS = ("fired", "requests", "merged", "moves", "passes", "route", "merged_route", "waited", "rounds")
FIRED, REQUESTS, MERGED, MOVES, PASSES, ROUTE, MERGED_ROUTE, WAITED, ROUNDS = range(len(FIELDS))
STATIC, WATCHED, CARRIED = range(3)


@part
def _ask(found: Any, asked: Any, tick: int, node: int, owner: int, other: int, nodes: int, hops: Any) -> int:
    """A request, and whether the node has asked this tick already; how long until the reply is here."""
    way = hops[owner, other]
    found[REQUESTS] += 1
    found[ROUTE] += way
    at = owner * nodes + node
    if asked[at, other] != tick:
        asked[at, other] = tick
        found[MERGED] += 1
        found[MERGED_ROUTE] += way
    return way + 1


@part
def _pass(found: Any, at: int, other: int, hops: Any) -> int:
    """The conjunct goes on to another node; how long that takes."""
    way = hops[at, other]
    found[PASSES] += 1
    found[ROUTE] += way
    found[MERGED_ROUTE] += way
    return way


@part
def _fire(found: Any, held: Any, values: Any, sources: Any, waited: int, rounds: int) -> None:
    """All are outside: deliver, and hold."""
    found[FIRED] += 1
    found[WAITED] += waited
    found[ROUNDS] += rounds
    for k in range(len(sources)):
        held[k] = values[sources[k]]


@part
def _carry(found: Any, values: Any, sources: Any, thresholds: Any, held: Any, w: int, hops: Any) -> int:
    """From predicate to predicate until one is inside; where the conjunct stays."""
    at, waited, rounds = w, 0, 0
    for k in range(len(sources)):
        if k == w:
            continue
        waited += _pass(found, sources[at], sources[k], hops)
        rounds += 1
        at = k
        if abs(values[sources[k]] - held[k]) <= thresholds[k]:
            return at
    _fire(found, held, values, sources, waited, rounds)
    return at


@part
def _probe(
    found: Any,
    asked: Any,
    tick: int,
    node: int,
    values: Any,
    sources: Any,
    thresholds: Any,
    held: Any,
    w: int,
    chained: int,
    nodes: int,
    hops: Any,
) -> int:
    """Ask the others, some singly and the rest at once; the first that is inside, -1 where all are outside."""
    inside, waited, rounds, widest = -1, 0, 0, 0
    for k in range(len(sources)):
        if k == w:
            continue
        back = _ask(found, asked, tick, node, sources[w], sources[k], nodes, hops)
        if inside < 0 and abs(values[sources[k]] - held[k]) <= thresholds[k]:
            inside = k
        if chained > 0:
            chained -= 1
            waited += back
            rounds += 1
            if inside >= 0:
                return inside
        else:
            rounds += widest == 0
            widest = max(widest, back)
    if inside < 0:
        _fire(found, held, values, sources, waited + widest, rounds)
    return inside


@compiled
def evaluate(
    values: Any,
    sources: Any,
    thresholds: Any,
    held: Any,
    chained: Any,
    way: int,
    hops: Any,
    nodes: int,
    found: Any,
) -> None:
    """Count, in `found`, what the conjunctions cost; `held` goes along.

    chained: how many predicates of each are asked singly, before the rest at once; way: STATIC, WATCHED or CARRIED
    """
    asked = np.full((values.shape[1] * nodes, values.shape[1]), -1, dtype=np.int64)
    owners = np.zeros(len(sources), dtype=np.int64)
    for tick in range(1, len(values)):
        now = values[tick]
        for n in range(len(sources)):
            w = owners[n]
            if abs(now[sources[n, w]] - held[n, w]) <= thresholds[n, w]:
                continue
            if way == CARRIED:
                owners[n] = _carry(found, now, sources[n], thresholds[n], held[n], w, hops)
                continue
            inside = _probe(
                found,
                asked,
                tick,
                n % nodes,
                now,
                sources[n],
                thresholds[n],
                held[n],
                w,
                chained[n],
                nodes,
                hops,
            )
            if inside >= 0 and way == WATCHED:
                owners[n] = inside
                found[MOVES] += 1
