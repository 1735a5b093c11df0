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
>>> temperature.broken, temperature.worst, round(temperature.ratio, 3)
(1, 0.6, 1.2)

A run counts in a `RowTally`, which returns the row.

>>> tally = RowTally(run="demo", topic="building.rooms", role="publisher")
>>> tally.count(events=1, raw_bytes=885, frames=1, messages=1, data_bytes=12)
>>> tally.count(events=1, raw_bytes=885, suppressed_events=1)
>>> tally.error("temperature", 0.4, bound=0.5)
>>> tally.latency(0.003)
>>> row = tally.row()
>>> row.events, row.bytes_per_event, row.error_max
(2, 6.0, 0.8)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from thinwire.errors import LedgerError
from thinwire.ledger.histogram import Histogram, merge_histograms


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


def merge_deviations(deviations: Iterable[Deviation]) -> Deviation:
    parts = list(deviations)
    return Deviation(
        broken=sum(part.broken for part in parts),
        worst=max((part.worst for part in parts), default=0.0),
        ratios=merge_histograms(part.ratios for part in parts),
    )


KEYS = ("run", "topic", "link", "class_", "role")
"""identify a row"""

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
        return merge_histograms(part.ratios for part in self.errors.values())

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


COUNTERS = tuple(item.name for item in fields(Row) if item.type == "int")
"""counters of a row"""


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
    values: dict[str, Any] = {key: _common(getattr(row, key) for row in parts) for key in KEYS}
    values |= {name: sum(getattr(row, name) for row in parts) for name in COUNTERS}
    return Row(
        **values,
        errors={name: merge_deviations(parts) for name, parts in _by_name(row.errors for row in parts).items()},
        latency_sent=merge_histograms(row.latency_sent for row in parts),
        latency_virtual=merge_histograms(row.latency_virtual for row in parts),
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
        self._keys = run, topic, link, class_, role
        self._counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
        self._errors: dict[str, Deviation] = defaultdict(Deviation)
        self._sent = Histogram()
        self._virtual = Histogram()

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
        self._errors[name].add(error, bound)

    def latency(self, seconds: float, *, virtual: bool = False) -> None:
        """Add the time from an event to its delivery. Virtual events have their own histogram."""
        (self._virtual if virtual else self._sent).add(seconds)

    def latencies(self, seconds: ArrayLike, *, virtual: bool = False) -> None:
        """Add the latencies of a column of events."""
        (self._virtual if virtual else self._sent).add_many(seconds)

    def row(self) -> Row:
        """Return the row of all figures so far."""
        return Row(
            *self._keys,
            **self._counts,
            errors=deepcopy(dict(self._errors)),
            latency_sent=deepcopy(self._sent),
            latency_virtual=deepcopy(self._virtual),
        )
