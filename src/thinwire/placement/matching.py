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
    parent, base = [-1] * len(neighbours), list(range(len(neighbours)))
    seen, queue = {root}, deque([root])

    def bases(vertex: int) -> list[int]:
        """Return the bases on the path from a vertex to the root."""
        path = [base[vertex]]
        while path[-1] != root:
            path.append(base[parent[partner[path[-1]]]])
        return path

    def contract(a: int, b: int) -> None:
        """Contract a blossom: the vertices of an odd cycle get a common base."""
        passed = bases(a)
        top = next(vertex for vertex in bases(b) if vertex in passed)
        blossom: set[int] = set()
        for start, other in ((a, b), (b, a)):
            vertex, child = start, other
            while base[vertex] != top:
                blossom |= {base[vertex], base[partner[vertex]]}
                parent[vertex], child = child, partner[vertex]
                vertex = parent[child]
        for vertex in range(len(base)):
            if base[vertex] in blossom:
                base[vertex] = top
                if vertex not in seen:
                    seen.add(vertex)
                    queue.append(vertex)

    while queue:
        here = queue.popleft()
        for there in neighbours[here]:
            if base[here] == base[there] or partner[here] == there:
                continue
            if there == root or (partner[there] >= 0 and parent[partner[there]] >= 0):
                contract(here, there)
            elif parent[there] < 0:
                parent[there] = here
                if partner[there] < 0:
                    _swap(there, parent, partner)
                    return
                seen.add(partner[there])
                queue.append(partner[there])


def _swap(vertex: int, parent: list[int], partner: list[int]) -> None:
    """Match the unmatched edges of the path that ends at `vertex`."""
    while vertex >= 0:
        before = parent[vertex]
        after = partner[before]
        partner[vertex], partner[before] = before, vertex
        vertex = after
