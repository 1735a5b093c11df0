"""Cases on the same properties, as rectangles in one index.

Newcomers are looked at one by one until that has cost as much as to place all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thinwire.filters.where.predicate import Case
from thinwire.filters.where.predicate_sides import NUMBERS, Ranks, sides, test_of, value_in

if TYPE_CHECKING:
    from thinwire.filters.rectangle_index_rectangles import RectangleIndex

FEW = 16
"""cases that are looked at one by one; an index needs compiled kernels, which cost half a second to load"""
WORTH = 8
"""looks at a newcomer that cost as much as to place one case"""

Column = Callable[[Sequence[Mapping[str, Any]]], list[float] | NDArray[np.float64]]
Found = tuple[int, int]
"""the place of an event, and the number of a predicate that it matches"""
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""the same of many, as columns"""


class Group:
    """Cases that say something about the same properties, each of a predicate that has a number.

    names: the properties
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._cases: dict[int, list[Case]] = {}
        self._newcomers: dict[int, list[Callable[[Mapping[str, Any]], bool]]] = {}
        self._index: RectangleIndex | None = None
        self._numbers = self._starts = np.zeros(0, dtype=np.int64)
        self._columns: list[Column] = []
        self._gone = self._looked = 0

    def __bool__(self) -> bool:
        return bool(self._cases)

    def add(self, number: int, case: Case) -> None:
        """One more case, of a predicate that may have others here."""
        self._cases.setdefault(number, []).append(case)
        self._newcomers.setdefault(number, []).append(_test(case))

    def remove(self, number: int) -> None:
        """The cases of a predicate are not asked about any more."""
        if self._cases.pop(number, None) is not None and self._newcomers.pop(number, None) is None:
            self._gone += 1

    def match(self, events: Sequence[Mapping[str, Any]]) -> tuple[list[Found], Pairs | None]:
        """Pairs of events and predicates, those of newcomers and those of the index apart; some of them perhaps more
        than once, or of predicates that were removed."""
        new = [
            (at, number)
            for number, tests in self._newcomers.items()
            for test in tests
            for at, event in enumerate(events)
            if test(event)
        ]
        pairs = self._placed(events) if self._index is not None else None
        self._looked += len(self._newcomers) * len(events)
        if self._is_worth_while():
            self._arrange()
        return new, pairs

    def _placed(self, events: Sequence[Mapping[str, Any]]) -> Pairs:
        assert self._index is not None
        points = np.column_stack([column(events) for column in self._columns])
        at, found = self._index.match(points)
        first, count = self._starts[found], self._index.distinct.multiplicity[found]
        if not len(count) or count.max() == 1:
            return at, self._numbers[first]
        before = np.repeat(np.cumsum(count) - count, count)
        places = np.repeat(first, count) + np.arange(count.sum()) - before
        return np.repeat(at, count), self._numbers[places]

    def _is_worth_while(self) -> bool:
        if self._gone > max(FEW, len(self._cases)):
            return True
        return len(self._newcomers) > FEW and self._looked >= WORTH * len(self._cases)

    def _arrange(self) -> None:
        """Place all cases anew."""
        from thinwire.filters.rectangle_index_rectangles import RectangleIndex

        numbers = [number for number, cases in self._cases.items() for _ in cases]
        cases = [case for several in self._cases.values() for case in several]
        ranks = [self._ranks(name, cases) for name in self.names]
        corners, of = list[tuple[tuple[float, float], ...]](), list[int]()
        for number, case in zip(numbers, cases, strict=True):
            made = list(product(*(sides(case[name], of_name) for name, of_name in zip(self.names, ranks, strict=True))))
            corners += made
            of += [number] * len(made)
        ends = np.array(corners, dtype=np.float64).reshape(len(corners), len(self.names), 2)
        self._index = RectangleIndex(ends[:, :, 0], ends[:, :, 1])
        order = np.argsort(self._index.distinct.of, kind="stable")
        self._numbers = np.array(of, dtype=np.int64)[order]
        self._starts = np.cumsum(self._index.distinct.multiplicity) - self._index.distinct.multiplicity
        self._columns = [_column(name, of_name) for name, of_name in zip(self.names, ranks, strict=True)]
        self._newcomers = {}
        self._gone = self._looked = 0

    @staticmethod
    def _ranks(name: str, cases: Sequence[Case]) -> Ranks | None:
        """The texts that a property is compared with; None where it is compared with numbers."""
        asked = [case[name] for case in cases if case[name].kind == "text"]
        if not asked:
            return None
        return Ranks(cut[1] for values in asked for span in values.spans for cut in span if not cut[0])


def _test(case: Case) -> Callable[[Mapping[str, Any]], bool]:
    tests = [(value_in(name), test_of(values)) for name, values in case.items()]
    if len(tests) == 1:
        ((value_of, test),) = tests
        return lambda event: test(value_of(event))
    return lambda event: all(test(value_of(event)) for value_of, test in tests)


def _column(name: str, ranks: Ranks | None) -> Column:
    """The function that makes a coordinate of every event; no number where the value is absent."""
    value_of = value_in(name)
    if ranks is not None:
        of = ranks.of
        return lambda events: [of(value_of(event)) for event in events]
    if "." not in name:
        return lambda events: _numbers([event.get(name) for event in events])
    return lambda events: _numbers([value_of(event) for event in events])


def _numbers(values: list[Any]) -> NDArray[np.float64]:
    if not {*map(type, values)} <= _PLAIN:
        values = [float(value) if isinstance(value, NUMBERS) else None for value in values]
    return np.array(values, dtype=np.float64)


_PLAIN = {float, int, bool, type(None)}
