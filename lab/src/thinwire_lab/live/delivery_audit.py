"""Audit of delivered events: missing, surplus or out of order, or further from the truth than their bound.

A subscriber records every event in the order of delivery; the record is audited after the measurement. The truth is an
`GroundTruth`: all events and values are known in advance, so publishers need not report what they sent.

There are two audits. `audit_exact` requires given events with given values; it is for undisturbed systems.
`audit_guarantee` is for systems in which a process failed. After a takeover a translator continues from the log without
the last decisions of its predecessor, so it may deliver a change earlier, or an event again with values that the
predecessor had suppressed. No subscriber may be further from the truth than its tolerance, or receive an event twice
with the same values, or receive an event that was not published.

>>> truth = GroundTruth(("t",), ["a"], np.array([3]), np.array([0]), 10, np.array([[[200], [204], [208]]]))
>>> record = DeliveryRecord(truth, source="sensor", stamp="time")
>>> for time, value in ((0, 20.0), (20, 20.5), (20, 20.5)):
...     record.add([Event({"sensor": "a", "time": time, "t": value}, bound={"t": 0.5}, source=("a",), ordinal=1)])
>>> result = audit_guarantee(record, truth, start=0, tolerance=0.5, emit="all")
>>> result, result.faults, describe_faults(result)
(AuditResult(events=3, missing=1, extra=1, disordered=0, beyond=0), 2, '1 missing, 1 extra')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.schema import Event
from thinwire_lab.live.live_feed import EventsBySource, Flags, GroundTruth, Ints

Rows = NDArray[np.float64]
_SLACK = 1e-6
"""ticks: values and bounds are doubles of decimals"""
_CAPACITY = 1024


class DeliveryRecord:
    """The delivered events of one subscriber as rows of source index, bounds index, instant and values.

    Adding is cheap and does not allocate memory during a measurement if `capacity` suffices, so an audited subscriber
    is hardly slower than others. An unknown source has the index -1.

    source, stamp: the properties with the source and the instant
    bounds: the distinct bounds of events
    """

    def __init__(self, truth: GroundTruth, *, source: str, stamp: str, capacity: int = _CAPACITY) -> None:
        self.truth = truth
        self.bounds: list[tuple[float | None, ...]] = []
        self._columns = (stamp, *truth.readings)
        self._source = source
        self._sources = {name: index for index, name in enumerate(truth.names)}
        self._last_bound: Mapping[str, float | None] | None = None
        self._last_index = -1
        # filled with values, so that the system provides the memory now
        self._rows = np.full((max(capacity, _CAPACITY), 2 + len(self._columns)), -1.0)
        self._used = 0

    def add(self, events: Sequence[Event]) -> None:
        if not events:
            return
        sources, source, columns, bound_index = self._sources, self._source, self._columns, self._bound_index
        rows = [
            [sources.get(event[source], -1), bound_index(event.bound), *map(event.__getitem__, columns)]
            for event in events
        ]
        while self._used + len(rows) > len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, -1.0)])
        self._rows[self._used : self._used + len(rows)] = rows
        self._used += len(rows)

    @property
    def rows(self) -> Rows:
        return self._rows[: self._used]

    def _bound_index(self, bound: Mapping[str, float | None]) -> int:
        # the events of a stream share one bound object
        if bound is not self._last_bound:
            values = tuple(bound[name] for name in self.truth.readings)
            if values not in self.bounds:
                self.bounds.append(values)
            self._last_bound, self._last_index = bound, self.bounds.index(values)
        return self._last_index


class AuditResult(NamedTuple):
    """Faults in a record of `events` events.

    missing: required events that were not delivered
    extra: events that were delivered twice or not published
    disordered: events that were delivered after a later one of their source
    beyond: events with a value beyond its bound, or a bound beyond the tolerance
    """

    events: int
    missing: int = 0
    extra: int = 0
    disordered: int = 0
    beyond: int = 0

    @property
    def faults(self) -> int:
        return self.missing + self.extra + self.disordered + self.beyond


@dataclass(frozen=True)
class AuditedResult:
    """The result of a run with an audit of each subscriber."""

    audits: tuple[AuditResult, ...]

    @property
    def faults(self) -> int:
        return sum(audit.faults for audit in self.audits)

    @property
    def audited_events(self) -> int:
        return sum(audit.events for audit in self.audits)


def describe_faults(result: AuditResult) -> str:
    """Return the number of faults of each kind as text, empty if there are none."""
    return ", ".join(f"{count:,} {fault}" for fault, count in result._asdict().items() if count and fault != "events")


class _Delivered(NamedTuple):
    """The rows of a record whose event was published, in order of delivery.

    key: source and step as one number; ticks: values
    limits: ticks by which each value may be off according to its bound; negative if the bound exceeds the tolerance
    unpublished: number of other rows
    """

    key: Ints
    ticks: Rows
    limits: Rows
    unpublished: int
    disordered: int


def audit_exact(
    record: DeliveryRecord, truth: GroundTruth, required: EventsBySource, start: int, tolerance: float
) -> AuditResult:
    """Require exactly the given events with the given values and with true bounds within the tolerance."""
    delivered = _read_record(record, truth, start, tolerance)
    keys = required.source * truth.steps + required.step
    order = np.argsort(keys)
    position = np.clip(np.searchsorted(keys[order], delivered.key), 0, len(keys) - 1)
    matched = (keys[order][position] == delivered.key) & _first_occurrences(delivered.key)
    index = order[position[matched]]
    wrong = (np.abs(delivered.ticks[matched] - required.values[index]) > _SLACK).any(axis=1)
    beyond = (np.abs(delivered.ticks[matched] - required.true_values[index]) > delivered.limits[matched]).any(axis=1)
    return AuditResult(
        events=len(record.rows),
        missing=len(keys) - int(matched.sum()),
        extra=delivered.unpublished + int((~matched).sum()),
        disordered=delivered.disordered,
        beyond=int((wrong | beyond).sum()),
    )


def audit_guarantee(
    record: DeliveryRecord, truth: GroundTruth, start: int, tolerance: float, emit: Literal["all", "changes"]
) -> AuditResult:
    """Require every event with `emit="all"`, otherwise that the latest values are always within the tolerance."""
    delivered = _read_record(record, truth, start, tolerance)
    first = _first_occurrences(delivered.key, delivered.ticks if emit == "changes" else None)
    key, ticks = delivered.key[first], delivered.ticks[first]
    source, step = np.divmod(key, truth.steps)
    beyond = (np.abs(ticks - _true_values(truth, source, step)) > delivered.limits[first]).any(axis=1)
    if emit == "all":
        missing = int(truth.counts.sum()) - len(key)
    else:
        missing = _count_stale(truth, source, step, ticks, tolerance / float(truth.unit))
    extra = delivered.unpublished + int((~first).sum())
    return AuditResult(len(record.rows), missing, extra, delivered.disordered, int(beyond.sum()))


def _read_record(record: DeliveryRecord, truth: GroundTruth, start: int, tolerance: float) -> _Delivered:
    source = record.rows[:, 0].astype(np.int64)
    since = record.rows[:, 2].astype(np.int64) - start - truth.offsets[source]
    step, rest = np.divmod(since, truth.period)
    published = (source >= 0) & (rest == 0) & (step >= 0) & (step < truth.counts[source])
    source, step = source[published], step[published]
    by_source = np.argsort(source, kind="stable")
    backwards = (np.diff(step[by_source]) < 0) & (np.diff(source[by_source]) == 0)
    return _Delivered(
        key=source * truth.steps + step,
        ticks=record.rows[published, 3:] / float(truth.unit),
        limits=_limits(record, tolerance)[record.rows[published, 1].astype(np.int64)],
        unpublished=int((~published).sum()),
        disordered=int(backwards.sum()),
    )


def _limits(record: DeliveryRecord, tolerance: float) -> Rows:
    values = np.array([[np.nan if limit is None else limit for limit in bound] for bound in record.bounds], dtype=float)
    values = values.reshape(-1, len(record.truth.readings))
    return np.where(values <= tolerance, values / float(record.truth.unit) + _SLACK, -1.0)


def _first_occurrences(key: Ints, ticks: Rows | None = None) -> Flags:
    """Flag the first occurrence of each key, or of each pair of key and values."""
    flags = np.zeros(len(key), dtype=np.bool_)
    rows = key[:, None] if ticks is None else np.column_stack([key, np.rint(ticks)])
    flags[np.unique(rows, axis=0, return_index=True)[1]] = True
    return flags


def _true_values(truth: GroundTruth, source: Ints, step: Ints) -> Ints:
    last = (step == truth.counts[source] - 1)[:, None]
    values: Ints = truth.cycle[source, step % truth.cycle.shape[1]] + truth.final_move * last
    return values


def _count_stale(truth: GroundTruth, source: Ints, step: Ints, ticks: Rows, tolerance: float) -> int:
    """Count the events after which the latest delivered values were missing or further off than the tolerance."""
    order = np.argsort(step, kind="stable")
    ends = np.searchsorted(step[order], np.arange(truth.steps + 1))
    latest = np.full((len(truth.names), len(truth.readings)), np.inf)
    stale = 0
    for now in range(truth.steps):
        rows = order[ends[now] : ends[now + 1]]
        latest[source[rows]] = ticks[rows]
        off = (np.abs(truth.at(now) - latest) > tolerance + _SLACK).any(axis=1)
        stale += int((off & truth.has_event(now)).sum())
    return stale
