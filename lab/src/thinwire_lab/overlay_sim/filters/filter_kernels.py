"""Compiled loops of the filter schemes: conjunctions over many sources, filters in levels, and the offline optimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part

FIELDS = ("fired", "requests", "merged", "moves", "passes", "route", "merged_route", "waited", "rounds")
FIRED, REQUESTS, MERGED, MOVES, PASSES, ROUTE, MERGED_ROUTE, WAITED, ROUNDS = range(len(FIELDS))
STATIC, WATCHED_CODE, CARRIED_CODE = range(3)


@part
def _request(found: Any, requested: Any, tick: int, node: int, owner: int, other: int, nodes: int, hops: Any) -> int:
    """Count a request; it is merged if the node already requested the value in this tick. Return the hops until the
    reply."""
    route = hops[owner, other]
    found[REQUESTS] += 1
    found[ROUTE] += route
    at = owner * nodes + node
    if requested[at, other] != tick:
        requested[at, other] = tick
        found[MERGED] += 1
        found[MERGED_ROUTE] += route
    return route + 1


@part
def _pass(found: Any, at: int, other: int, hops: Any) -> int:
    """Count the forwarding of a conjunct to another node. Return its hops."""
    route = hops[at, other]
    found[PASSES] += 1
    found[ROUTE] += route
    found[MERGED_ROUTE] += route
    return route


@part
def _fire(found: Any, held: Any, values: Any, sources: Any, waited: int, rounds: int) -> None:
    """Deliver the values of a conjunct whose predicates are all outside."""
    found[FIRED] += 1
    found[WAITED] += waited
    found[ROUNDS] += rounds
    for k in range(len(sources)):
        held[k] = values[sources[k]]


@part
def _carry(found: Any, values: Any, sources: Any, thresholds: Any, held: Any, w: int, hops: Any) -> int:
    """Forward a conjunct until a predicate is inside. Return the index of its new owner."""
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
    requested: Any,
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
    """Request the other values, some one by one and the rest at once. Return the first that is inside, or -1."""
    inside, waited, rounds, widest = -1, 0, 0, 0
    for k in range(len(sources)):
        if k == w:
            continue
        back = _request(found, requested, tick, node, sources[w], sources[k], nodes, hops)
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
    mode: int,
    hops: Any,
    nodes: int,
    found: Any,
) -> None:
    """Count the costs of conjunctions in `found`, and update `held`.

    chained: number of predicates of each conjunct that are requested one by one, before the rest at once
    mode: STATIC, WATCHED_CODE or CARRIED_CODE
    """
    requested = np.full((values.shape[1] * nodes, values.shape[1]), -1, dtype=np.int64)
    owners = np.zeros(len(sources), dtype=np.int64)
    for tick in range(1, len(values)):
        now = values[tick]
        for n in range(len(sources)):
            w = owners[n]
            if abs(now[sources[n, w]] - held[n, w]) <= thresholds[n, w]:
                continue
            if mode == CARRIED_CODE:
                owners[n] = _carry(found, now, sources[n], thresholds[n], held[n], w, hops)
                continue
            inside = _probe(
                found,
                requested,
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
            if inside >= 0 and mode == WATCHED_CODE:
                owners[n] = inside
                found[MOVES] += 1


@part
def visit_tree(x: int, radii: Any, centres: Any, roots: Any, first: Any, children: Any, queue: Any, passed: Any) -> Any:
    """BasicMove: list the filters that pass x. Return how many pass it and how many evaluated it."""
    seen, count = len(roots), 0
    queue[:seen] = roots
    at = 0
    while at < seen:
        node = queue[at]
        at += 1
        if abs(x - centres[node]) <= radii[node]:
            continue
        centres[node] = x
        passed[count] = node
        count += 1
        for k in range(first[node], first[node + 1]):
            queue[seen] = children[k]
            seen += 1
    return count, seen


@compiled
def pass_tree(
    values: Any, radii: Any, centres: Any, roots: Any, first: Any, children: Any, places: Any, passed: Any
) -> tuple[int, int]:
    """Write pairs of a value's index and a filter that passed it. Return their number and that of evaluations."""
    queue = np.empty(len(radii), dtype=np.int64)
    count, touched = 0, 0
    for at in range(len(values)):
        n, seen = visit_tree(values[at], radii, centres, roots, first, children, queue, passed[count:])
        places[count : count + n] = at
        count += n
        touched += seen
    return count, touched


@part
def aligned(x: int, radius: int, centre: int, edge: int) -> Any:
    """Return whether x is within the radius of an edge of the filter below, and that edge."""
    if abs(x - (centre - edge)) <= radius:
        return True, centre - edge
    if abs(x - (centre + edge)) <= radius:
        return True, centre + edge
    return False, 0


@part
def visit_chain(x: int, radii: Any, centres: Any, depth: int) -> int:
    """CooperativeMove down one chain. Return the number of filters that passed x."""
    for level in range(depth):
        if level < depth - 1:
            near, edge = aligned(x, radii[level], centres[level + 1], radii[level + 1])
            if near:
                centres[level] = edge
                return level
        if abs(x - centres[level]) <= radii[level]:
            return level
        centres[level] = x
    return depth


@compiled
def pass_chains(values: Any, radii: Any, depths: Any, centres: Any, places: Any, rows: Any, levels: Any) -> int:
    """Write index, chain and level of every filter that passed a value. Return their number."""
    count = 0
    for at in range(len(values)):
        for row in range(len(depths)):
            for level in range(visit_chain(values[at], radii[row], centres[row], depths[row])):
                places[count] = at
                rows[count] = row
                levels[count] = level
                count += 1
    return count


@part
def first_beyond(values: Any, stack: Any, top: int, limit: int, sign: int) -> int:
    """Return the nearest record on the stack beyond the limit. Lower records are farther out and later."""
    low, high = 0, top
    while low < high:
        middle = (low + high) // 2
        if sign * values[stack[middle]] > limit:
            low = middle + 1
        else:
            high = middle
    return stack[low - 1] if low else len(values)


@part
def push(values: Any, stack: Any, top: int, at: int, sign: int) -> int:
    """Push a value on the stack and remove later ones that are not beyond it."""
    while top and sign * values[stack[top - 1]] <= sign * values[at]:
        top -= 1
    stack[top] = at
    return top + 1


@compiled
def serves_until(values: Any, threshold: int, until: Any) -> None:
    """Write for each value the index of the first later one that differs by more than the threshold, or the end."""
    size = len(values)
    highs, lows = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    high, low = 0, 0
    for at in range(size - 1, -1, -1):
        above = first_beyond(values, highs, high, values[at] + threshold, 1)
        below = first_beyond(values, lows, low, threshold - values[at], -1)
        until[at] = min(above, below)
        high = push(values, highs, high, at, 1)
        low = push(values, lows, low, at, -1)


@compiled
def choose(until: Any, places: Any) -> int:
    """Write the indexes of the delivered values. Return their number."""
    size = len(until)
    end, far, best, at, count = 0, 0, 0, 0, 0
    while end < size:
        while at <= min(end, size - 1):
            if until[at] > far:
                far, best = until[at], at
            at += 1
        places[count] = best
        count += 1
        end = far
    return count
