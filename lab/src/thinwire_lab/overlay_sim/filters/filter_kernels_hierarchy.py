"""Filters in levels: what the ones above pass on, the ones below look at."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part


@part
def visit_tree(x: int, radii: Any, centres: Any, roots: Any, first: Any, children: Any, queue: Any, passed: Any) -> Any:
    """BasicMove: lists the filters that pass x on; answers with how many did and how many looked."""
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
    """Writes pairs of a value's place and a filter that passed it on; how many, and how many filters looked."""
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
    """The edge of the filter below that x is within the radius of, if there is one."""
    if abs(x - (centre - edge)) <= radius:
        return True, centre - edge
    if abs(x - (centre + edge)) <= radius:
        return True, centre + edge
    return False, 0


@part
def visit_chain(x: int, radii: Any, centres: Any, depth: int) -> int:
    """CooperativeMove down one chain; how many filters passed x on."""
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
    """Writes place, chain and level of every filter that passed a value on, and says how many."""
    count = 0
    for at in range(len(values)):
        for row in range(len(depths)):
            for level in range(visit_chain(values[at], radii[row], centres[row], depths[row])):
                places[count] = at
                rows[count] = row
                levels[count] = level
                count += 1
    return count
