"""Index of many predicates: find those that match each event of a batch.

Cases on the same properties are rectangles of one space, and each space has its own index, so that a predicate on a
price costs nothing for one on a region. Equal predicates are stored once. New cases are tested one by one until that
has cost as much as rebuilding the index.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinwire.filters.where.predicate import (
    NUMBERS,
    Case,
    EventTest,
    TextRanks,
    WherePredicate,
    case_test,
    closed_intervals,
    value_getter,
)

if TYPE_CHECKING:
    from thinwire.filters.rectangle_index import RectangleIndex


MIN_INDEXED = 16
"""cases below which no index is built; it needs compiled kernels, which take half a second to load"""
REBUILD_COST = 8
"""tests of an unindexed case that cost as much as indexing one case"""

CoordinateReader = Callable[[Sequence[Mapping[str, Any]]], list[float] | NDArray[np.float64]]
Match = tuple[int, int]
"""index of an event, number of a predicate that it matches"""
MatchColumns = tuple[NDArray[np.int64], NDArray[np.int64]]


class CaseGroup:
    """Cases on the same properties, each of a numbered predicate.

    names: the properties
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._cases: dict[int, list[Case]] = {}
        self._unindexed: dict[int, list[EventTest]] = {}
        self._index: RectangleIndex | None = None
        self._numbers_by_rectangle = self._rectangle_starts = np.zeros(0, dtype=np.int64)
        self._coordinate_readers: list[CoordinateReader] = []
        self._removed = self._tested = 0

    def __bool__(self) -> bool:
        return bool(self._cases)

    def add(self, number: int, case: Case) -> None:
        """Add a case of a predicate, which may have other cases in the group."""
        self._cases.setdefault(number, []).append(case)
        self._unindexed.setdefault(number, []).append(case_test(case))

    def remove(self, number: int) -> None:
        """Remove the cases of a predicate."""
        if self._cases.pop(number, None) is not None and self._unindexed.pop(number, None) is None:
            self._removed += 1  # its rectangles stay in the index until it is rebuilt

    def match(self, events: Sequence[Mapping[str, Any]]) -> tuple[list[Match], MatchColumns | None]:
        """Return the matches of unindexed cases and those of the index.

        A match may occur more than once, and matches of the index may be of removed predicates.
        """
        matches = [
            (index, number)
            for number, tests in self._unindexed.items()
            for test in tests
            for index, event in enumerate(events)
            if test(event)
        ]
        columns = self._search_index(events) if self._index is not None else None
        self._tested += len(self._unindexed) * len(events)
        if self._needs_rebuild():
            self._rebuild()
        return matches, columns

    def _search_index(self, events: Sequence[Mapping[str, Any]]) -> MatchColumns:
        assert self._index is not None
        points = np.column_stack([read(events) for read in self._coordinate_readers])
        event_indexes, rectangles = self._index.match(points)
        first, count = self._rectangle_starts[rectangles], self._index.distinct.multiplicity[rectangles]
        if not len(count) or count.max() == 1:
            return event_indexes, self._numbers_by_rectangle[first]
        run_starts = np.repeat(np.cumsum(count) - count, count)
        indexes = np.repeat(first, count) + np.arange(count.sum()) - run_starts
        return np.repeat(event_indexes, count), self._numbers_by_rectangle[indexes]

    def _needs_rebuild(self) -> bool:
        if self._removed > max(MIN_INDEXED, len(self._cases)):
            return True
        return len(self._unindexed) > MIN_INDEXED and self._tested >= REBUILD_COST * len(self._cases)

    def _rebuild(self) -> None:
        """Build the index of all cases."""
        from thinwire.filters.rectangle_index import RectangleIndex

        cases = [case for own_cases in self._cases.values() for case in own_cases]
        ranks = {name: self._ranks(name, cases) for name in self.names}
        rectangles, numbers = list[tuple[tuple[float, float], ...]](), list[int]()
        for number, own_cases in self._cases.items():
            for case in own_cases:
                own_rectangles = list(product(*(closed_intervals(case[name], ranks[name]) for name in self.names)))
                rectangles += own_rectangles
                numbers += [number] * len(own_rectangles)
        ends = np.array(rectangles, dtype=np.float64).reshape(len(rectangles), len(self.names), 2)
        self._index = RectangleIndex(ends[:, :, 0], ends[:, :, 1])
        order = np.argsort(self._index.distinct.row_of, kind="stable")
        self._numbers_by_rectangle = np.array(numbers, dtype=np.int64)[order]
        self._rectangle_starts = np.cumsum(self._index.distinct.multiplicity) - self._index.distinct.multiplicity
        self._coordinate_readers = [_coordinate_reader(name, ranks[name]) for name in self.names]
        self._unindexed = {}
        self._removed = self._tested = 0

    @staticmethod
    def _ranks(name: str, cases: Sequence[Case]) -> TextRanks | None:
        """Ranks of the texts that a property is compared with; None if it is compared with numbers."""
        sets = [case[name] for case in cases if case[name].kind == "text"]
        if not sets:
            return None
        return TextRanks(text for values in sets for span in values.spans for infinity, text, _ in span if not infinity)


def _coordinate_reader(name: str, ranks: TextRanks | None) -> CoordinateReader:
    """Return a function from events to coordinates; NaN where the value is absent."""
    value_of = value_getter(name)
    if ranks is not None:
        rank = ranks.rank
        return lambda events: [rank(value_of(event)) for event in events]
    if "." not in name:
        return lambda events: _to_floats([event.get(name) for event in events])
    return lambda events: _to_floats([value_of(event) for event in events])


def _to_floats(values: list[Any]) -> NDArray[np.float64]:
    if not {*map(type, values)} <= _PLAIN_TYPES:
        values = [float(value) if isinstance(value, NUMBERS) else None for value in values]
    return np.array(values, dtype=np.float64)


_PLAIN_TYPES = {float, int, bool, type(None)}


T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class _Entry(Generic[T]):
    where: WherePredicate
    number: int
    subscribers: dict[T, None] = field(default_factory=dict)


class PredicateIndex(Generic[T]):
    """Predicates of subscribers.

    >>> from thinwire.filters.where.where_grammar import parse_where
    >>> index = PredicateIndex()
    >>> index.add("cheap", parse_where("price < 10")); index.add("far", parse_where("region != 'EU'"))
    >>> index.match([{"price": 5, "region": "EU"}, {"price": 5, "region": "US"}, {"price": 50, "region": "EU"}])
    [['cheap'], ['cheap', 'far'], []]
    """

    def __init__(self) -> None:
        self._canonical: dict[T, str] = {}
        self._entries: dict[str, _Entry[T]] = {}
        self._by_number: dict[int, _Entry[T]] = {}
        self._groups: dict[tuple[str, ...], CaseGroup] = {}
        self._next = 0

    def __len__(self) -> int:
        """Return the number of subscribers."""
        return len(self._canonical)

    def add(self, subscriber: T, where: WherePredicate) -> None:
        """Set the predicate of a subscriber."""
        self.remove(subscriber)
        self._canonical[subscriber] = where.canonical
        entry = self._entries.get(where.canonical)
        if entry is None:
            entry = self._entries[where.canonical] = self._by_number[self._next] = _Entry(where, self._next)
            self._next += 1
            for case in where.cases:
                names = tuple(case)
                self._groups.setdefault(names, CaseGroup(names)).add(entry.number, case)
        entry.subscribers[subscriber] = None

    def remove(self, subscriber: T) -> None:
        """Remove a subscriber, if it is in the index."""
        canonical = self._canonical.pop(subscriber, None)
        if canonical is None:
            return
        entry = self._entries[canonical]
        del entry.subscribers[subscriber]
        if not entry.subscribers:
            del self._entries[canonical], self._by_number[entry.number]
            for names in {tuple(case) for case in entry.where.cases}:
                self._groups[names].remove(entry.number)
                if not self._groups[names]:
                    del self._groups[names]

    def match(self, events: Sequence[Mapping[str, Any]]) -> list[list[T]]:
        """Return the matching subscribers of each event, ordered by the first use of their predicates."""
        results = [group.match(events) for group in self._groups.values()]
        matches = [match for unindexed, _ in results for match in unindexed]
        columns = [indexed for _, indexed in results if indexed is not None]
        unique = self._merge(matches, columns) if columns else sorted({*matches})
        found = list[list[T]]([] for _ in events)
        for index, number in unique:
            if number in self._by_number:
                found[index] += self._by_number[number].subscribers
        return found

    def _merge(self, matches: list[Match], columns: list[MatchColumns]) -> Iterable[Match]:
        """Return all matches once, sorted."""
        event_columns, number_columns = zip(*columns, strict=True)
        events = np.concatenate([*event_columns, np.array([match[0] for match in matches], dtype=np.int64)])
        numbers = np.concatenate([*number_columns, np.array([match[1] for match in matches], dtype=np.int64)])
        keys = np.unique(events * self._next + numbers)
        return zip((keys // self._next).tolist(), (keys % self._next).tolist(), strict=True)
