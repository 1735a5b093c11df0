"""Benchmark of content matching: events a second that are matched with a hundred thousand subscriptions.

The first row times the batch call of the rectangle index on the generated rectangles, most of which are equal to others
and stored once. For the second row every corner is moved, so that all rectangles differ: hundreds of them match an
event, and most of the time is spent on writing the matches. The third row is the same with results in pieces of limited
size, which need no new memory. Both have no required result.

The last row times a translator, from events as dicts to the subscriptions of each. All predicates differ. Their sides
are a tenth as long, so that an event has as many matches as in the first row. They are on the same two properties, so
that one index contains all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thinwire.filters.rectangle_index import RectangleIndex
from thinwire.filters.where.predicate_index import PredicateIndex
from thinwire.filters.where.where_grammar import parse_where
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.random_rows import Floats
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan

MIN_EVENTS_PER_SECOND = 50_000.0
BATCH = 1_000
"""events of a message"""
CHECKED = 20
"""events that are compared with every rectangle or predicate"""
NOISE, SHRUNK = 0.5, 0.1
"""movement of corners that makes all rectangles different, and the factor for their sides"""


class MatchingResult(NamedTuple):
    """Matches and times.

    distinct: different rectangles; found: pairs of an event and a distinct rectangle
    seconds: processor time of all events; building: of the index
    wrong: checked events with other matches
    """

    distinct: int
    events: int
    found: int
    seconds: float
    building: float
    wrong: int

    @property
    def rate(self) -> float:
        """Events per second of processor time."""
        return self.events / self.seconds


class MatchingWorkload(NamedTuple):
    """Rectangles and events of a generated workload; names: of the coordinates."""

    low: Floats
    high: Floats
    points: Floats
    names: list[str]


def generate_workload(subscriptions: int, events: int, *, noise: float = 0.0, seed: int = 7) -> MatchingWorkload:
    """Generate a workload from the built-in summary."""
    plan = WorkloadPlan(
        builtin(), Recipe(subscriptions=subscriptions, events=events, brokers=1, seed=seed, noise=noise)
    )
    axes = [axis.name for axis in plan.axes]
    table, points = plan.subscriptions(np.arange(subscriptions)), plan.events(np.arange(events))
    low, high = ([table.column(f"{axis}_{end}").to_numpy() for axis in axes] for end in ("low", "high"))
    coordinates = [points.column(f"{axis}_at").to_numpy() for axis in axes]
    return MatchingWorkload(
        np.stack(low, 1), np.stack(high, 1), np.stack(coordinates, 1), [f"{axis}_at" for axis in axes]
    )


def rectangles(subscriptions: int, events: int, *, noise: float = 0.0, pieces: bool = False) -> MatchingResult:
    """Time the batch call, from points to pairs of points and rectangles.

    pieces: whether the pairs are returned in pieces of limited size
    """
    workload, started = generate_workload(subscriptions, events, noise=noise), time.process_time()
    index = RectangleIndex(workload.low, workload.high)
    index.match(workload.points[:1])
    built, found = time.process_time(), 0
    for first in range(0, events, BATCH):
        batch = workload.points[first : first + BATCH]
        found += sum(len(points) for points, _ in index.match_batches(batch)) if pieces else len(index.match(batch)[0])
    ended = time.process_time()
    checked = workload.points[:CHECKED, None, :]
    inside = ((workload.low <= checked) & (checked <= workload.high)).all(axis=2).sum(axis=1)
    points, boxes = index.match(workload.points[:CHECKED])
    counts = np.bincount(points, index.distinct.multiplicity[boxes], minlength=len(checked))
    wrong = int((counts != inside).sum())
    return MatchingResult(len(index), events, found, ended - built, built - started, wrong)


def predicates(subscriptions: int, events: int) -> MatchingResult:
    """Time the call of a translator, from events to the subscriptions of each."""
    workload = generate_workload(subscriptions, events, noise=NOISE)
    texts = _predicate_texts(workload)
    dicts = [dict(zip(workload.names, point, strict=True)) for point in workload.points.tolist()]
    started = time.process_time()
    index = PredicateIndex[int]()
    for number, text in enumerate(texts):
        index.add(number, parse_where(text))
    for event in dicts[:10]:
        index.match([event])
    built, found = time.process_time(), 0
    for first in range(0, events, BATCH):
        found += sum(map(len, index.match(dicts[first : first + BATCH])))
    ended = time.process_time()
    wrong = _count_wrong(index, texts, dicts[:CHECKED])
    return MatchingResult(len(texts), events, found, ended - built, built - started, wrong)


def _predicate_texts(workload: MatchingWorkload) -> list[str]:
    middle, half = (workload.low + workload.high) / 2, (workload.high - workload.low) * SHRUNK / 2
    sides = " and ".join(f"{name} between {{!r}} and {{!r}}" for name in workload.names)
    ends = np.stack([middle - half, middle + half], axis=2).reshape(len(middle), -1)
    return [sides.format(*corner) for corner in ends.tolist()]


def _count_wrong(index: PredicateIndex[int], texts: list[str], events: list[dict[str, Any]]) -> int:
    expected: list[list[int]] = [[] for _ in events]
    for number, text in enumerate(texts):
        holds = parse_where(text).matches
        for position, event in enumerate(events):
            if holds(event):
                expected[position].append(number)
    return sum(sorted(found) != own for found, own in zip(index.match(events), expected, strict=True))


class MatchingMethod(NamedTuple):
    """One row: what is timed, and the required events per second."""

    name: str
    match: Callable[[int, int], MatchingResult]
    low: float | None = None


METHODS = (
    MatchingMethod("matching: rectangles, batch call", rectangles, MIN_EVENTS_PER_SECOND),
    MatchingMethod("matching: rectangles, all different and large, batch call", partial(rectangles, noise=NOISE)),
    MatchingMethod(
        "matching: rectangles, all different and large, in pieces", partial(rectangles, noise=NOISE, pieces=True)
    ),
    MatchingMethod("matching: predicates, as in a translator", predicates, MIN_EVENTS_PER_SECOND),
)


def matching(setting: Setting) -> Iterator[Row]:
    """Measure one row for each method."""
    size = setting.size(100_000, 2_000)
    for done, method in enumerate(METHODS):
        found = method.match(size, size)
        invalid = f"{found.wrong} events have other matches" if found.wrong else ""
        yield Row(method.name, "events/s", found.rate, method.low, how=_describe(size, found), invalid=invalid)
        setting.progress((done + 1) / len(METHODS))


def _describe(subscriptions: int, found: MatchingResult) -> str:
    each = f"{found.found / found.events:.1f} matches each, {found.found / found.seconds:,.0f} a second"
    return (
        f"one process, by its processor time; {subscriptions:,} subscriptions, {found.distinct:,} different, index "
        f"built in {found.building:.1f} s; {found.events:,} events in batches of {BATCH:,}, {each}; "
        f"{CHECKED} compared with all"
    )


BENCHMARKS = [Benchmark("matching", matching)]
