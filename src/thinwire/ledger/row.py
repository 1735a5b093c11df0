"""Measurement row: the counters, errors and latencies of one role of one run on one topic, link and class.

Bytes are counted twice. *Frame bytes* are those of thinwire: frames with their headers, key frames, control frames and
dictionaries. *Link bytes* are all bytes on the socket in both directions, with subjects and acknowledgements. Savings
are stated in frame bytes.

>>> row = Row(run="demo", topic="building.rooms", events=100, raw_bytes=88_500, data_bytes=1_100, key_bytes=670)
>>> row.frame_bytes, row.saved
(1770, 0.98)

`Deviation` compares the errors of one property with their bounds.

>>> temperature = Deviation()
>>> temperature.add(error=0.4, bound=0.5)
>>> temperature.add(error=0.6, bound=0.5)
>>> temperature.checked, temperature.broken, temperature.worst, round(temperature.ratio, 3)
(2, 1, 0.6, 1.2)

A run counts in a `RowTally`, which returns the row.

>>> tally = RowTally(run="demo", topic="building.rooms", role="publisher")
>>> tally.count(events=1, raw_bytes=885, frames=1, messages=1, data_bytes=12)
>>> tally.count(events=1, raw_bytes=885, suppressed_events=1)
>>> tally.error("temperature", 0.4, bound=0.5)
>>> tally.latency(0.003)
>>> tally.cpu("publisher", 0.25)
>>> row = tally.row()
>>> row.events, row.bytes_per_event, row.error_max, row.cpu_seconds
(2, 6.0, 0.8, {'publisher': 0.25})
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from thinwire.errors import LedgerError
from thinwire.ledger import histogram
from thinwire.ledger.histogram import Histogram


@dataclass
class Deviation:
    """The errors of one property.

    broken: number of values beyond their bound; worst: the largest error, in the property's unit
    ratios: errors divided by their bounds
    """

    broken: int = 0
    worst: float = 0.0
    ratios: Histogram = field(default_factory=Histogram)

    @property
    def checked(self) -> int:
        """Number of values that were compared."""
        return self.ratios.count

    @property
    def ratio(self) -> float:
        """The largest error divided by its bound; infinite if a bound of 0 was exceeded."""
        return max(self.ratios.most, 0.0)

    def add(self, error: float, bound: float) -> None:
        """Add the error of one value."""
        if not (error >= 0 and 0 <= bound < math.inf):
            raise LedgerError("errors must be non-negative numbers, bounds also finite", error=error, bound=bound)
        # A bound of 0 requires equality.
        self.ratios.add(error / bound if bound else math.inf if error else 0.0)
        self.broken += error > bound
        self.worst = max(self.worst, error)

    def add_many(self, errors: ArrayLike, bounds: ArrayLike) -> None:
        """Add the errors of a column of values, with a column of bounds or one bound."""
        error = np.asarray(errors, dtype=np.float64).ravel()
        bound = np.broadcast_to(np.asarray(bounds, dtype=np.float64), error.shape)
        if not bool(((error >= 0) & (bound >= 0) & np.isfinite(bound)).all()):
            raise LedgerError("errors must be non-negative numbers, bounds also finite")
        ratios = np.where(error > 0, np.inf, 0.0)
        with np.errstate(over="ignore"):
            np.divide(error, bound, out=ratios, where=bound > 0)
        self.ratios.add_many(ratios)
        self.broken += int((error > bound).sum())
        self.worst = max(self.worst, float(error.max(initial=0.0)))

    def copy(self) -> Deviation:
        return Deviation(self.broken, self.worst, self.ratios.copy())


def merged(deviations: Iterable[Deviation]) -> Deviation:
    """Return the sum of deviations."""
    parts = list(deviations)
    return Deviation(
        broken=sum(part.broken for part in parts),
        worst=max((part.worst for part in parts), default=0.0),
        ratios=histogram.merged(part.ratios for part in parts),
    )


KEYS = ("run", "topic", "link", "class_", "role")
"""identify a row"""

COUNTERS = (
    "events",
    "frames",
    "messages",
    "suppressed_values",
    "suppressed_events",
    "told_missing",
    "rejected",
    "raw_bytes",
    "data_bytes",
    "key_bytes",
    "control_bytes",
    "dictionary_bytes",
    "link_bytes",
    "stored_bytes",
)
"""counters of a row"""

MANY = "*"
"""value of a key that differs between merged rows"""

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Row:
    """One line of the ledger; docs/ledger.md explains every column."""

    run: str
    topic: str = ""
    link: str = ""
    class_: str = ""
    role: str = ""
    events: int = 0
    frames: int = 0
    messages: int = 0
    suppressed_values: int = 0
    suppressed_events: int = 0
    told_missing: int = 0
    rejected: int = 0
    raw_bytes: int = 0
    data_bytes: int = 0
    key_bytes: int = 0
    control_bytes: int = 0
    dictionary_bytes: int = 0
    link_bytes: int = 0
    stored_bytes: int = 0
    errors: Mapping[str, Deviation] = field(default_factory=dict)
    latency_sent: Histogram = field(default_factory=Histogram)
    latency_virtual: Histogram = field(default_factory=Histogram)
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def frame_bytes(self) -> int:
        """Bytes of data frames, key frames, control frames and dictionaries."""
        return self.data_bytes + self.key_bytes + self.control_bytes + self.dictionary_bytes

    @property
    def saved(self) -> float | None:
        """1 - frame bytes / raw bytes; None without raw bytes."""
        return 1 - self.frame_bytes / self.raw_bytes if self.raw_bytes else None

    @property
    def bytes_per_event(self) -> float | None:
        """Frame bytes per event; None without events."""
        return self.frame_bytes / self.events if self.events else None

    @property
    def ratios(self) -> Histogram:
        """Errors divided by their bounds, of all properties."""
        return histogram.merged(part.ratios for part in self.errors.values())

    @property
    def error_max(self) -> float | None:
        """The largest error divided by its bound; at most 1 if the guarantee was met. None without checked values."""
        return self.ratios.quantile(1.0)

    @property
    def error_p99(self) -> float | None:
        """The 99th percentile of errors divided by their bounds."""
        return self.ratios.quantile(0.99)

    @property
    def broken(self) -> int:
        """Number of values beyond their bound."""
        return sum(part.broken for part in self.errors.values())


def merge(rows: Iterable[Row]) -> Row:
    """Return the sum of rows: counters are added, histograms merged.

    Sender and receiver both count a message, so only rows of one role may be merged.

    >>> total = merge([Row("demo", "rooms", events=2), Row("demo", "tanks", events=3)])
    >>> total.run, total.topic, total.events
    ('demo', '*', 5)
    """
    parts = list(rows)
    if not parts:
        raise LedgerError("there are no rows to merge")
    fields: dict[str, Any] = {key: _common(getattr(row, key) for row in parts) for key in KEYS}
    fields |= {name: sum(getattr(row, name) for row in parts) for name in COUNTERS}
    return Row(
        **fields,
        errors={name: merged(parts) for name, parts in _by_name(row.errors for row in parts).items()},
        latency_sent=histogram.merged(row.latency_sent for row in parts),
        latency_virtual=histogram.merged(row.latency_virtual for row in parts),
        cpu_seconds={role: sum(parts) for role, parts in _by_name(row.cpu_seconds for row in parts).items()},
    )


def _common(values: Iterable[str]) -> str:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else MANY


def _by_name(mappings: Iterable[Mapping[str, _Part]]) -> dict[str, list[_Part]]:
    grouped: dict[str, list[_Part]] = {}
    for mapping in mappings:
        for name, part in mapping.items():
            grouped.setdefault(name, []).append(part)
    return grouped


class RowTally:
    """Counts the figures of one row. Rows are snapshots; counting can continue."""

    def __init__(self, run: str, topic: str = "", link: str = "", class_: str = "", role: str = "") -> None:
        self.run = run
        self.topic = topic
        self.link = link
        self.class_ = class_
        self.role = role
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._errors: dict[str, Deviation] = {}
        self._sent = Histogram()
        self._virtual = Histogram()
        self._cpu: dict[str, float] = {}

    def count(self, **amounts: int) -> None:
        """Add to counters by name. If one is invalid, none is changed."""
        for name, amount in amounts.items():
            if name not in self._counts:
                raise LedgerError("no such counter", counter=name, known=COUNTERS)
            if amount < 0:
                raise LedgerError("counters cannot decrease", counter=name, amount=amount)
        for name, amount in amounts.items():
            self._counts[name] += amount

    def error(self, name: str, error: float, bound: float) -> None:
        """Add the error of a value of a property, with its bound."""
        self._deviation(name).add(error, bound)

    def errors(self, name: str, errors: ArrayLike, bounds: ArrayLike) -> None:
        """Add the errors of a column of values."""
        self._deviation(name).add_many(errors, bounds)

    def latency(self, seconds: float, *, virtual: bool = False) -> None:
        """Add the time from an event to its delivery. Virtual events have their own histogram."""
        (self._virtual if virtual else self._sent).add(seconds)

    def latencies(self, seconds: ArrayLike, *, virtual: bool = False) -> None:
        """Add the latencies of a column of events."""
        (self._virtual if virtual else self._sent).add_many(seconds)

    def cpu(self, role: str, seconds: float) -> None:
        """Add the CPU time of a role."""
        if not seconds >= 0:
            raise LedgerError("CPU time must be a non-negative number", role=role, seconds=seconds)
        self._cpu[role] = self._cpu.get(role, 0.0) + seconds

    def row(self) -> Row:
        """Return the row of all figures so far."""
        return Row(
            self.run,
            self.topic,
            self.link,
            self.class_,
            self.role,
            **self._counts,
            errors={name: deviation.copy() for name, deviation in self._errors.items()},
            latency_sent=self._sent.copy(),
            latency_virtual=self._virtual.copy(),
            cpu_seconds=dict(self._cpu),
        )

    def _deviation(self, name: str) -> Deviation:
        return self._errors.setdefault(name, Deviation())
