"""Maximum matching in a general graph (Edmonds' blossom algorithm)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


def maximum_matching(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the partner of every vertex, -1 for unmatched ones.

    >>> maximum_matching(4, [(0, 1), (1, 2), (2, 3)])
    [1, 0, 3, 2]
    >>> maximum_matching(3, [(0, 1), (1, 2), (0, 2)]).count(-1)
    1
    """
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    partner = [-1] * count
    for root in range(count):
        if partner[root] < 0:
            _augment(root, neighbours, partner)
    return partner


def _augment(root: int, neighbours: list[list[int]], partner: list[int]) -> None:
    """Search an augmenting path from `root` and apply it."""
    count = len(neighbours)
    parent, base = [-1] * count, list(range(count))
    seen = [False] * count
    seen[root] = True
    queue = deque([root])
    while queue:
        here = queue.popleft()
        for there in neighbours[here]:
            if base[here] == base[there] or partner[here] == there:
                continue
            if there == root or (partner[there] >= 0 and parent[partner[there]] >= 0):
                _contract(here, there, root, parent, base, partner, seen, queue)
            elif parent[there] < 0:
                parent[there] = here
                if partner[there] < 0:
                    _swap(there, parent, partner)
                    return
                seen[partner[there]] = True
                queue.append(partner[there])


def _contract(
    a: int,
    b: int,
    root: int,
    parent: list[int],
    base: list[int],
    partner: list[int],
    seen: list[bool],
    queue: deque[int],
) -> None:
    """Contract a blossom: the vertices of an odd cycle get a common base."""
    top = _common(a, b, root, parent, base, partner)
    blossom: set[int] = set()
    _mark(a, top, b, parent, base, partner, blossom)
    _mark(b, top, a, parent, base, partner, blossom)
    for vertex in range(len(base)):
        if base[vertex] in blossom:
            base[vertex] = top
            if not seen[vertex]:
                seen[vertex] = True
                queue.append(vertex)


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
    vertex: int, top: int, child: int, parent: list[int], base: list[int], partner: list[int], blossom: set[int]
) -> None:
    while base[vertex] != top:
        blossom |= {base[vertex], base[partner[vertex]]}
        parent[vertex] = child
        child = partner[vertex]
        vertex = parent[partner[vertex]]


def _swap(vertex: int, parent: list[int], partner: list[int]) -> None:
    while vertex >= 0:
        before = parent[vertex]
        after = partner[before]
        partner[vertex], partner[before] = before, vertex
        vertex = after
