"""Live content matching: who of a hundred thousand asks for an event?

The first row times the batch call of the index of rectangles, as drawn: most subscribers share theirs with others, and
those are one. The second moves every corner a little, so that all are different and as large as drawn: hundreds of them
hold an event, and to write those down is most of the work. It has no bar; beside it stands the same in pieces of
limited size, which spares fresh memory for all that is found. The last times what a translator does with a message,
against predicates that are all different: events as dicts in, of each event who asks for it out. There sides are a
tenth as long as drawn, so that an event matches as many as it does in the first row; all predicates speak of the same
two properties, so that one index holds them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thinwire.filters import RectangleIndex
from thinwire.filters.where import PredicateIndex, parse
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.random_rows import Floats
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan

EVENTS_PER_SECOND = 50_000.0
BATCH = 1_000
"""events of a message"""
CHECKED = 20
"""events that are held against everything, one by one"""
NOISE, SHRUNK = 0.5, 0.1
"""how far corners are moved so that no two rectangles are alike, and what is left of their sides"""


class Matched(NamedTuple):
    """What came of it.

    distinct: how many rectangles are different; found: pairs of an event and a distinct rectangle
    seconds: of processor time for all events; arranging: before the first
    wrong: events of those checked one by one for which something else was found
    """

    distinct: int
    events: int
    found: int
    seconds: float
    arranging: float
    wrong: int

    @property
    def rate(self) -> float:
        """Events a second of processor time."""
        return self.events / self.seconds


class Drawn(NamedTuple):
    """Rectangles and events of the generated workload; names: of the coordinates."""

    low: Floats
    high: Floats
    points: Floats
    names: list[str]


def drawn(subscriptions: int, events: int, *, noise: float = 0.0, seed: int = 7) -> Drawn:
    """A workload from the built-in summary."""
    plan = WorkloadPlan(
        builtin(), Recipe(subscriptions=subscriptions, events=events, brokers=1, seed=seed, noise=noise)
    )
    axes = [axis.name for axis in plan.axes]
    table, points = plan.subscriptions(np.arange(subscriptions)), plan.events(np.arange(events))
    low, high = ([table.column(f"{axis}_{end}").to_numpy() for axis in axes] for end in ("low", "high"))
    places = [points.column(f"{axis}_at").to_numpy() for axis in axes]
    return Drawn(np.stack(low, 1), np.stack(high, 1), np.stack(places, 1), [f"{axis}_at" for axis in axes])


def rectangles(subscriptions: int, events: int, *, noise: float = 0.0, pieces: bool = False) -> Matched:
    """The batch call: points in, pairs of points and rectangles out; all at once, or in pieces."""
    given, began = drawn(subscriptions, events, noise=noise), time.process_time()
    index = RectangleIndex(given.low, given.high)
    index.match(given.points[:1])
    arranged, found = time.process_time(), 0
    for at in range(0, events, BATCH):
        batch = given.points[at : at + BATCH]
        found += sum(len(at) for at, _ in index.match_batches(batch)) if pieces else len(index.match(batch)[0])
    ended = time.process_time()
    checked = given.points[:CHECKED, None, :]
    inside = ((given.low <= checked) & (checked <= given.high)).all(axis=2).sum(axis=1)
    wrong = int((index.count(given.points[:CHECKED]) != inside).sum())
    return Matched(len(index), events, found, ended - arranged, arranged - began, wrong)


def predicates(subscriptions: int, events: int) -> Matched:
    """What a translator asks: events in, who asks for each of them out."""
    given = drawn(subscriptions, events, noise=NOISE)
    texts = _texts(given)
    several = [dict(zip(given.names, place, strict=True)) for place in given.points.tolist()]
    began = time.process_time()
    index = PredicateIndex[int]()
    for number, text in enumerate(texts):
        index.add(number, parse(text))
    for event in several[:10]:
        index.match([event])
    arranged, found = time.process_time(), 0
    for at in range(0, events, BATCH):
        found += sum(map(len, index.match(several[at : at + BATCH])))
    ended = time.process_time()
    return Matched(
        len(texts), events, found, ended - arranged, arranged - began, _wrong(index, texts, several[:CHECKED])
    )


def _texts(given: Drawn) -> list[str]:
    middle, half = (given.low + given.high) / 2, (given.high - given.low) * SHRUNK / 2
    sides = " and ".join(f"{name} between {{!r}} and {{!r}}" for name in given.names)
    ends = np.stack([middle - half, middle + half], axis=2).reshape(len(middle), -1)
    return [sides.format(*corner) for corner in ends.tolist()]


def _wrong(index: PredicateIndex[int], texts: list[str], several: list[dict[str, Any]]) -> int:
    expected: list[list[int]] = [[] for _ in several]
    for number, text in enumerate(texts):
        holds = parse(text).holds
        for at, event in enumerate(several):
            if holds(event):
                expected[at].append(number)
    return sum(sorted(found) != one for found, one in zip(index.match(several), expected, strict=True))


class Way(NamedTuple):
    """One row: what is timed, and how many events a second are asked for."""

    name: str
    match: Callable[[int, int], Matched]
    low: float | None = None


WAYS = (
    Way("matching: rectangles, batch call", rectangles, EVENTS_PER_SECOND),
    Way("matching: rectangles, all different and large, batch call", partial(rectangles, noise=NOISE)),
    Way("matching: rectangles, all different and large, in pieces", partial(rectangles, noise=NOISE, pieces=True)),
    Way("matching: predicates, as a translator asks", predicates, EVENTS_PER_SECOND),
)


def matching(setting: Setting) -> Iterator[Row]:
    """Every way, one row each."""
    size = setting.size(100_000, 2_000)
    for done, way in enumerate(WAYS):
        found = way.match(size, size)
        note = f"{found.wrong} events match something else" if found.wrong else ""
        yield Row(way.name, "events/s", found.rate, way.low, how=_how(size, found), note=note, sound=not found.wrong)
        setting.progress((done + 1) / len(WAYS))


def _how(subscriptions: int, found: Matched) -> str:
    each = f"{found.found / found.events:.1f} matches each, {found.found / found.seconds:,.0f} a second"
    return (
        f"one process, by its processor time; {subscriptions:,} subscriptions, {found.distinct:,} different, arranged "
        f"in {found.arranging:.1f} s; {found.events:,} events in batches of {BATCH:,}, {each}; "
        f"{CHECKED} held against all"
    )


BARS = [Bar("matching", matching)]
