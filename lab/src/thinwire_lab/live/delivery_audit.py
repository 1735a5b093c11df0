"""What is wrong with a record: events missing, too many, out of order, or further from the truth than promised.

Two judges. `strictly` knows which events a class must be told, and with which values: it is for a chain that nothing
disturbs. `by_promise` is for one that was disturbed: a translator that takes over knows what the log says, not what its
predecessor had told of it, and may tell a change a little earlier; what it may not do is to leave a subscriber further
from the truth than it asked for, to say the same twice, or to tell an event that never was. Who asks for changes may be
told an event again with other values: those that the predecessor had not shown.

What an auditing subscriber writes down: every event it is handed, in the order in which they came.

Writing down is cheap and takes no memory while a round lasts, so that an auditor is hardly slower than the others of
its class; judging comes after the round (`class_judge`).

Events whose truth is known everywhere: numbered, with a value that follows from the number.

A subscriber's record is judged without asking anybody: every number of every source once, in order, every value as
near to the truth as its bound says.

>>> record = [("a", 0, reading(0), 0.5), ("a", 2, reading(2), 0.5), ("a", 2, reading(2) + 1, 0.5)]
>>> judge(record, {"a": 3})
Verdict(events=3, missing=2, repeated=1, disordered=0, beyond=1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.schema import Event, Property, Schema
from thinwire_lab.live.live_feed import STEP, EventCourse, EventsBySource, Flags, Ints

Rows = NDArray[np.float64]
_FEW = 1024


class Record:
    """Rows of source, claim, instant and readings; a source that nobody knows is -1.

    source, stamp: the properties that tell the source and the instant
    capacity: rows for which there is room from the beginning
    claims: how far values may be off, as events said; a row has the place of its event's claim

    >>> from thinwire.schema import Event
    >>> record = Record(["a"], ("t",), source="sensor", stamp="time")
    >>> record.note([Event({"sensor": "a", "time": 7, "t": 20.5}, bound={"t": 0.5}, source=("a",), ordinal=1)])
    >>> record.rows.tolist(), record.claims
    ([[0.0, 0.0, 7.0, 20.5]], [(0.5,)])
    """

    def __init__(
        self, names: Sequence[str], readings: Sequence[str], *, source: str, stamp: str, capacity: int = _FEW
    ) -> None:
        self.readings = tuple(readings)
        self.claims: list[tuple[float | None, ...]] = []
        self._columns = (stamp, *readings)
        self._source = source
        self._places = {name: place for place, name in enumerate(names)}
        self._bound: Mapping[str, float | None] | None = None
        self._claim = -1
        # written to once, so that the memory is there before anybody looks
        self._rows = np.full((max(capacity, _FEW), 2 + len(self._columns)), -1.0)
        self._used = 0

    def note(self, events: Sequence[Event]) -> None:
        """Write events down."""
        if not events:
            return
        places, source, columns, claim = self._places, self._source, self._columns, self._claim_of
        rows = [
            [places.get(event[source], -1), claim(event.bound), *map(event.__getitem__, columns)] for event in events
        ]
        self._make_room(len(rows))
        self._rows[self._used : self._used + len(rows)] = rows
        self._used += len(rows)

    @property
    def rows(self) -> Rows:
        """Everything so far."""
        return self._rows[: self._used]

    def _make_room(self, more: int) -> None:
        while self._used + more > len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, -1.0)])

    def _claim_of(self, bound: Mapping[str, float | None]) -> int:
        """The place of a claim; the events of a link share theirs, so that one look is enough for most."""
        if bound is not self._bound:
            claim = tuple(bound[name] for name in self.readings)
            if claim not in self.claims:
                self.claims.append(claim)
            self._bound, self._claim = bound, self.claims.index(claim)
        return self._claim


_SLACK = 1e-6
"""ticks: values and bounds are doubles of decimals"""


class Findings(NamedTuple):
    """What is wrong with a record of so many events.

    missing: events that should have come; extra: those that came again or never were
    disordered: those that came after a later one of their source; beyond: values that are not what was promised
    """

    events: int
    missing: int = 0
    extra: int = 0
    disordered: int = 0
    beyond: int = 0

    @property
    def faults(self) -> int:
        return self.missing + self.extra + self.disordered + self.beyond


class _Seen(NamedTuple):
    """A record in terms of a course: rows whose event really was, in their order, and how many others there are.

    limits: how far each value may be off, in ticks, as its event claimed; nothing at all where it claimed too much
    """

    key: Ints
    ticks: Rows
    limits: Rows
    others: int
    disordered: int


def strictly(record: Record, told: EventsBySource, course: EventCourse, start: int, tolerance: float) -> Findings:
    """Exactly the events told, each with its values, each claim of the bounds within the tolerance and true."""
    seen = _seen(record, course, start, tolerance)
    wanted = told.source * course.steps + told.step
    order = np.argsort(wanted)
    place = np.clip(np.searchsorted(wanted[order], seen.key), 0, len(wanted) - 1)
    right = wanted[order][place] == seen.key
    first = _first_times(seen.key)
    matched = right & first
    which = order[place[matched]]
    wrong = (np.abs(seen.ticks[matched] - told.values[which]) > _SLACK).any(axis=1)
    far = (np.abs(seen.ticks[matched] - told.truth[which]) > seen.limits[matched]).any(axis=1)
    return Findings(
        events=len(record.rows),
        missing=len(wanted) - int(matched.sum()),
        extra=seen.others + int((~matched).sum()),
        disordered=seen.disordered,
        beyond=int((wrong | far).sum()),
    )


def by_promise(
    record: Record, course: EventCourse, start: int, tolerance: float, emit: Literal["all", "changes"]
) -> Findings:
    """Every event where all are asked for; else no moment at which what was told last is too far from the truth."""
    seen = _seen(record, course, start, tolerance)
    first = _first_times(seen.key, seen.ticks if emit == "changes" else None)
    key, ticks = seen.key[first], seen.ticks[first]
    source, step = np.divmod(key, course.steps)
    far = (np.abs(ticks - _truth(course, source, step)) > seen.limits[first]).any(axis=1)
    if emit == "all":
        missing = int(course.counts.sum()) - len(key)
    else:
        missing = _left_behind(course, source, step, ticks, tolerance / float(STEP))
    extra = seen.others + int((~first).sum())
    return Findings(len(record.rows), missing, extra, seen.disordered, int(far.sum()))


def _seen(record: Record, course: EventCourse, start: int, tolerance: float) -> _Seen:
    source = record.rows[:, 0].astype(np.int64)
    known = source >= 0
    since = record.rows[:, 2].astype(np.int64) - start - course.offsets[source]
    step, rest = np.divmod(since, course.period)
    real = known & (rest == 0) & (step >= 0) & (step < course.counts[source])
    source, step = source[real], step[real]
    by_source = np.argsort(source, kind="stable")
    backwards = (np.diff(step[by_source]) < 0) & (np.diff(source[by_source]) == 0)
    return _Seen(
        key=source * course.steps + step,
        ticks=record.rows[real, 3:] / float(STEP),
        limits=_limits(record, tolerance)[record.rows[real, 1].astype(np.int64)],
        others=int((~real).sum()),
        disordered=int(backwards.sum()),
    )


def _limits(record: Record, tolerance: float) -> Rows:
    """By claim: ticks by which values may be off; a claim of more than was asked for is refused altogether."""
    claims = np.array([[np.nan if limit is None else limit for limit in claim] for claim in record.claims], dtype=float)
    limits = claims.reshape(-1, len(record.readings)) / float(STEP) + _SLACK
    return np.where(claims.reshape(limits.shape) <= tolerance, limits, -1.0)


def _first_times(key: Ints, ticks: Rows | None = None) -> Flags:
    """Which of them come for the first time; with these values, where given."""
    flags = np.zeros(len(key), dtype=np.bool_)
    rows = key[:, None] if ticks is None else np.column_stack([key, np.rint(ticks)])
    flags[np.unique(rows, axis=0, return_index=True)[1]] = True
    return flags


def _truth(course: EventCourse, source: Ints, step: Ints) -> Ints:
    last = (step == course.counts[source] - 1)[:, None]
    values: Ints = course.cycle[source, step % course.cycle.shape[1]] + course.farewell * last
    return values


def _left_behind(course: EventCourse, source: Ints, step: Ints, ticks: Rows, tolerance: float) -> int:
    """Events after which the value told last was further from the truth than the tolerance, or nothing told yet."""
    order = np.argsort(step, kind="stable")
    ends = np.searchsorted(step[order], np.arange(course.steps + 1))
    shown = np.full((len(course.names), len(course.readings)), np.inf)
    behind = 0
    for now in range(course.steps):
        some = order[ends[now] : ends[now + 1]]
        shown[source[some]] = ticks[some]
        off = (np.abs(course.at(now) - shown) > tolerance + _SLACK).any(axis=1)
        behind += int((off & course.has_event(now)).sum())
    return behind


TOPIC = "chaos.numbers"
TOLERANCE = 0.5
PERIOD = 20
"""milliseconds between two events of a source, as their timestamps tell"""
_BASE = 1_700_000_000_000
_SLACK_NUMBERED = 1e-9
"""the value and its truth are doubles of decimals"""

Line = tuple[str, int, float, float]
"""source, number, value, bound"""


class Verdict(NamedTuple):
    """What is wrong with a record: events missing, there again, before an earlier one, further off than promised."""

    events: int
    missing: int = 0
    repeated: int = 0
    disordered: int = 0
    beyond: int = 0

    @property
    def faults(self) -> int:
        return self.missing + self.repeated + self.disordered + self.beyond


def wrong(found: Verdict | Findings) -> str:
    """What is wrong, in words; nothing where nothing is.

    >>> wrong(Verdict(events=30, missing=2, beyond=1)), wrong(Verdict(events=30))
    ('2 missing, 1 beyond', '')
    """
    counted = found._asdict().items()
    return ", ".join(f"{count:,} {what}" for what, count in counted if count and what != "events")


def numbered_schema() -> Schema:
    """The schema of numbered events."""
    return Schema(
        TOPIC,
        [
            Property("time", "timestamp", "header", form="epoch", step=1),
            Property("sensor", "string", "dimension"),
            Property("number", "integer"),
            Property("value", "number", step="0.1"),
        ],
    )


def reading(number: int) -> float:
    """The value of an event: a new level every third time, in between movements smaller than the tolerance.

    >>> [reading(number) for number in range(5)]
    [10.0, 10.1, 10.2, 17.4, 17.5]
    """
    return (100 + number // 3 * 37 % 101 * 2 + number % 3) / 10


def numbered(sensor: str, number: int) -> dict[str, Any]:
    """An event of a source."""
    return {"time": _BASE + number * PERIOD, "sensor": sensor, "number": number, "value": reading(number)}


def judge(record: Iterable[Line], last: Mapping[str, int], tolerance: float = TOLERANCE) -> Verdict:
    """What is wrong with a record, where the numbers of each source went from 0 to `last`."""
    seen: dict[str, set[int]] = {sensor: set() for sensor in last}
    highest = dict.fromkeys(last, -1)
    events = repeated = disordered = beyond = 0
    for sensor, number, value, bound in record:
        events += 1
        repeated += number in seen[sensor]
        disordered += number < highest[sensor]
        beyond += not abs(value - reading(number)) <= bound + _SLACK_NUMBERED or not bound <= tolerance
        seen[sensor].add(number)
        highest[sensor] = max(highest[sensor], number)
    missing = sum(len(set(range(last[sensor] + 1)) - numbers) for sensor, numbers in seen.items())
    return Verdict(events, missing, repeated, disordered, beyond)
