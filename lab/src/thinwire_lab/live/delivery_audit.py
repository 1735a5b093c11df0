"""What is wrong with a record: events missing, too many, out of order, or further from the truth than promised.

Two judges. `strictly` knows which events a class must be told, and with which values: it is for a chain that nothing
disturbs. `by_promise` is for one that was disturbed: a translator that takes over knows what the log says, not what its
predecessor had told of it, and may tell a change a little earlier; what it may not do is to leave a subscriber further
from the truth than it asked for, to say the same twice, or to tell an event that never was. Who asks for changes may be
told an event again with other values: those that the predecessor had not shown.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from thinwire_lab.live.delivery_audit_class_record import Record, Rows
from thinwire_lab.live.live_feed import STEP, Course, Flags, Ints
from thinwire_lab.live.live_feed_class_truth import Told

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


def strictly(record: Record, told: Told, course: Course, start: int, tolerance: float) -> Findings:
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
    record: Record, course: Course, start: int, tolerance: float, emit: Literal["all", "changes"]
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


def _seen(record: Record, course: Course, start: int, tolerance: float) -> _Seen:
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


def _truth(course: Course, source: Ints, step: Ints) -> Ints:
    last = (step == course.counts[source] - 1)[:, None]
    values: Ints = course.cycle[source, step % course.cycle.shape[1]] + course.farewell * last
    return values


def _left_behind(course: Course, source: Ints, step: Ints, ticks: Rows, tolerance: float) -> int:
    """Events after which the value told last was further from the truth than the tolerance, or nothing told yet."""
    order = np.argsort(step, kind="stable")
    ends = np.searchsorted(step[order], np.arange(course.steps + 1))
    shown = np.full((len(course.names), len(course.readings)), np.inf)
    behind = 0
    for now in range(course.steps):
        some = order[ends[now] : ends[now + 1]]
        shown[source[some]] = ticks[some]
        off = (np.abs(course.at(now) - shown) > tolerance + _SLACK).any(axis=1)
        behind += int((off & course.goes_on(now)).sum())
    return behind
