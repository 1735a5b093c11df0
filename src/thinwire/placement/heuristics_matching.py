"""Maximum matching in any graph (Edmonds): the most pairs, each topic in one of them at most.

>>> matched(4, [(0, 1), (1, 2), (2, 3)])
[1, 0, 3, 2]
>>> matched(3, [(0, 1), (1, 2), (0, 2)]).count(-1)
1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


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
