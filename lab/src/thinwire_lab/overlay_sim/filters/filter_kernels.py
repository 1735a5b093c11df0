"""Compiled loops of the filter schemes: conjunctions over many sources, filters in levels, and the offline optimum.

A predicate is *outside* if its source's value differs from the reference value of the predicate by more than the
threshold. The loops of conjunctions count in an array with one element per name of `COUNTERS`. One predicate of each
conjunct is the owner: the conjunct is evaluated at the node of the owner's source.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part

COUNTERS = (
    "fired",
    "requests",
    "distinct_requests",
    "moves",
    "passes",
    "request_hops",
    "distinct_request_hops",
    "decision_hops",
    "rounds",
)
"""names of the counters; `ConjunctionCosts` describes them"""
FIRED, REQUESTS, DISTINCT_REQUESTS, MOVES, PASSES, HOPS, DISTINCT_HOPS, DECISION_HOPS, ROUNDS = range(len(COUNTERS))
STATIC_OWNER, MOVING_OWNER, CARRIED_CONJUNCT = range(3)
"""modes: the owner never changes; it changes to the first predicate found inside; the conjunct is forwarded from
predicate to predicate instead of requesting values"""


@part
def _request(
    counters: Any, requested_at: Any, tick: int, node: int, owner: int, other: int, nodes: int, hops: Any
) -> int:
    """Count a request, and as distinct if the node has not requested the value in this tick. Return hops to the reply.

    requested_at: tick of the last request, one row per node of each source and one column per requested source
    """
    route = hops[owner, other]
    counters[REQUESTS] += 1
    counters[HOPS] += route
    row = owner * nodes + node
    if requested_at[row, other] != tick:
        requested_at[row, other] = tick
        counters[DISTINCT_REQUESTS] += 1
        counters[DISTINCT_HOPS] += route
    return route + 1


@part
def _pass(counters: Any, sender: int, receiver: int, hops: Any) -> int:
    """Count the forwarding of a conjunct between the nodes of two sources. Return its hops."""
    route = hops[sender, receiver]
    counters[PASSES] += 1
    counters[HOPS] += route
    counters[DISTINCT_HOPS] += route
    return route


@part
def _fire(counters: Any, references: Any, values: Any, sources: Any, decision_hops: int, rounds: int) -> None:
    """Count the delivery of a conjunct whose predicates are all outside, and set its reference values."""
    counters[FIRED] += 1
    counters[DECISION_HOPS] += decision_hops
    counters[ROUNDS] += rounds
    for k in range(len(sources)):
        references[k] = values[sources[k]]


@part
def _carry(counters: Any, values: Any, sources: Any, thresholds: Any, references: Any, owner: int, hops: Any) -> int:
    """Forward a conjunct until a predicate is inside. Return the predicate that is the new owner."""
    last, decision_hops, rounds = owner, 0, 0
    for k in range(len(sources)):
        if k == owner:
            continue
        decision_hops += _pass(counters, sources[last], sources[k], hops)
        rounds += 1
        last = k
        if abs(values[sources[k]] - references[k]) <= thresholds[k]:
            return last
    _fire(counters, references, values, sources, decision_hops, rounds)
    return last


@part
def _probe(
    counters: Any,
    requested_at: Any,
    tick: int,
    node: int,
    values: Any,
    sources: Any,
    thresholds: Any,
    references: Any,
    owner: int,
    sequential: int,
    nodes: int,
    hops: Any,
) -> int:
    """Request the other values, `sequential` of them one after the other and then the rest concurrently.

    Return the first predicate that is inside, or -1.
    """
    inside, decision_hops, rounds, longest = -1, 0, 0, 0
    for k in range(len(sources)):
        if k == owner:
            continue
        reply_hops = _request(counters, requested_at, tick, node, sources[owner], sources[k], nodes, hops)
        if inside < 0 and abs(values[sources[k]] - references[k]) <= thresholds[k]:
            inside = k
        if sequential > 0:
            sequential -= 1
            decision_hops += reply_hops
            rounds += 1
            if inside >= 0:
                return inside
        else:
            rounds += longest == 0
            longest = max(longest, reply_hops)
    if inside < 0:
        _fire(counters, references, values, sources, decision_hops + longest, rounds)
    return inside


@compiled
def evaluate(
    values: Any,
    sources: Any,
    thresholds: Any,
    references: Any,
    sequential: Any,
    mode: int,
    hops: Any,
    nodes: int,
    counters: Any,
) -> None:
    """Count the costs of conjunctions, and update their reference values.

    values: one row per tick, one column per source
    sources, thresholds, references: one row per conjunction, one column per predicate
    sequential: number of predicates of each conjunction that are requested one after the other, before the rest
    mode: STATIC_OWNER, MOVING_OWNER or CARRIED_CONJUNCT
    hops: hops between the nodes of two sources
    nodes: number of nodes over which the conjunctions of a source are distributed
    """
    requested_at = np.full((values.shape[1] * nodes, values.shape[1]), -1, dtype=np.int64)
    owners = np.zeros(len(sources), dtype=np.int64)
    for tick in range(1, len(values)):
        now = values[tick]
        for n in range(len(sources)):
            owner = owners[n]
            if abs(now[sources[n, owner]] - references[n, owner]) <= thresholds[n, owner]:
                continue
            if mode == CARRIED_CONJUNCT:
                owners[n] = _carry(counters, now, sources[n], thresholds[n], references[n], owner, hops)
                continue
            inside = _probe(
                counters,
                requested_at,
                tick,
                n % nodes,
                now,
                sources[n],
                thresholds[n],
                references[n],
                owner,
                sequential[n],
                nodes,
                hops,
            )
            if inside >= 0 and mode == MOVING_OWNER:
                owners[n] = inside
                counters[MOVES] += 1


@part
def _visit_tree(
    x: int, radii: Any, centres: Any, roots: Any, first: Any, children: Any, queue: Any, passed: Any
) -> Any:
    """Write the filters that pass x to `passed` (BasicMove: each moves to x). Return how many pass and evaluate it."""
    evaluated, count = len(roots), 0
    queue[:evaluated] = roots
    position = 0
    while position < evaluated:
        node = queue[position]
        position += 1
        if abs(x - centres[node]) <= radii[node]:
            continue
        centres[node] = x
        passed[count] = node
        count += 1
        for k in range(first[node], first[node + 1]):
            queue[evaluated] = children[k]
            evaluated += 1
    return count, evaluated


@compiled
def pass_tree(
    values: Any, radii: Any, centres: Any, roots: Any, first: Any, children: Any, indexes: Any, passed: Any
) -> tuple[int, int]:
    """Write pairs of a value's index and a filter that passed it. Return their number and that of evaluations.

    first: index of the first child of each filter in `children`
    """
    queue = np.empty(len(radii), dtype=np.int64)
    count, evaluations = 0, 0
    for at in range(len(values)):
        n, evaluated = _visit_tree(values[at], radii, centres, roots, first, children, queue, passed[count:])
        indexes[count : count + n] = at
        count += n
        evaluations += evaluated
    return count, evaluations


@part
def _near_edge(x: int, radius: int, centre: int, lower_radius: int) -> Any:
    """Return whether x is within the radius of an edge of the filter below, and that edge."""
    if abs(x - (centre - lower_radius)) <= radius:
        return True, centre - lower_radius
    if abs(x - (centre + lower_radius)) <= radius:
        return True, centre + lower_radius
    return False, 0


@part
def _visit_chain(x: int, radii: Any, centres: Any, depth: int) -> int:
    """Move the filters of a chain for x (CooperativeMove). Return the number of filters that pass x."""
    for level in range(depth):
        if level < depth - 1:
            is_near, edge = _near_edge(x, radii[level], centres[level + 1], radii[level + 1])
            if is_near:
                centres[level] = edge
                return level
        if abs(x - centres[level]) <= radii[level]:
            return level
        centres[level] = x
    return depth


@compiled
def pass_chains(values: Any, radii: Any, depths: Any, centres: Any, indexes: Any, rows: Any, levels: Any) -> int:
    """Write index of the value, chain and level of every filter that passed a value. Return their number."""
    count = 0
    for at in range(len(values)):
        for row in range(len(depths)):
            for level in range(_visit_chain(values[at], radii[row], centres[row], depths[row])):
                indexes[count] = at
                rows[count] = row
                levels[count] = level
                count += 1
    return count


@part
def _next_beyond(values: Any, stack: Any, top: int, limit: int, sign: int) -> int:
    """Return the index of the first later value with sign * value > limit, or the number of values.

    sign: 1 to search upwards, -1 to search downwards
    stack: indexes of later values, latest first; each value is farther out than those after it on the stack
    """
    low, high = 0, top
    while low < high:
        middle = (low + high) // 2
        if sign * values[stack[middle]] > limit:
            low = middle + 1
        else:
            high = middle
    return stack[low - 1] if low else len(values)


@part
def _push(values: Any, stack: Any, top: int, at: int, sign: int) -> int:
    """Push an index on the stack of `_next_beyond`, after removing values that are not farther out. Return its size."""
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
        above = _next_beyond(values, highs, high, values[at] + threshold, 1)
        below = _next_beyond(values, lows, low, threshold - values[at], -1)
        until[at] = min(above, below)
        high = _push(values, highs, high, at, 1)
        low = _push(values, lows, low, at, -1)


@compiled
def choose_deliveries(until: Any, indexes: Any) -> int:
    """Write the indexes of the values to deliver, each the one that serves longest. Return their number.

    until: result of `serves_until`
    """
    size = len(until)
    end, longest, best, at, count = 0, 0, 0, 0, 0
    while end < size:
        while at <= end:
            if until[at] > longest:
                longest, best = until[at], at
            at += 1
        indexes[count] = best
        count += 1
        end = longest
    return count
