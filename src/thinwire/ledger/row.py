"""The row: what one role of one run did on one topic, link and class.

Bytes are counted on two planes. *Frame bytes* are what thinwire itself decides: frames with their headers, key frames,
control, dictionaries. *Link bytes* are everything on the socket, both directions, subjects and acknowledgements
included. Savings are stated on the first, with the second beside them.

>>> row = Row(run="demo", topic="building.rooms", events=100, raw_bytes=88_500, data_bytes=1_100, key_bytes=670)
>>> row.frame_bytes, row.saved
(1770, 0.98)

How far the values of one property were from the truth, against what was promised.

>>> temperature = Deviation()
>>> temperature.add(error=0.4, bound=0.5)
>>> temperature.add(error=0.6, bound=0.5)
>>> temperature.checked, temperature.broken, temperature.worst, round(temperature.ratio, 3)
(2, 1, 0.6, 1.2)

The tally: what a run adds to while it goes, and makes its row from.

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

    broken: values beyond their bound, none if the promise was kept; worst: the largest error, in the property's own
    unit; ratios: the spread of the errors divided by their bounds
    """

    broken: int = 0
    worst: float = 0.0
    ratios: Histogram = field(default_factory=Histogram)

    @property
    def checked(self) -> int:
        """How many values were compared with the truth."""
        return self.ratios.count

    @property
    def ratio(self) -> float:
        """The largest error divided by its bound; infinite where a bound of 0 was broken."""
        return max(self.ratios.most, 0.0)

    def add(self, error: float, bound: float) -> None:
        """Compare one value with its bound."""
        if not (error >= 0 and 0 <= bound < math.inf):
            raise LedgerError("errors are numbers from 0 upwards, bounds also finite", error=error, bound=bound)
        # A bound of 0 promises equality: any error at all breaks it by infinitely much.
        self.ratios.add(error / bound if bound else math.inf if error else 0.0)
        self.broken += error > bound
        self.worst = max(self.worst, error)

    def add_many(self, errors: ArrayLike, bounds: ArrayLike) -> None:
        """Compare a column of values with their bounds, or all of them with one bound."""
        error = np.asarray(errors, dtype=np.float64).ravel()
        bound = np.broadcast_to(np.asarray(bounds, dtype=np.float64), error.shape)
        if not bool(((error >= 0) & (bound >= 0) & np.isfinite(bound)).all()):
            raise LedgerError("errors are numbers from 0 upwards, bounds also finite")
        ratios = np.where(error > 0, np.inf, 0.0)
        with np.errstate(over="ignore"):
            np.divide(error, bound, out=ratios, where=bound > 0)
        self.ratios.add_many(ratios)
        self.broken += int((error > bound).sum())
        self.worst = max(self.worst, float(error.max(initial=0.0)))

    def copy(self) -> Deviation:
        return Deviation(self.broken, self.worst, self.ratios.copy())


def merged(deviations: Iterable[Deviation]) -> Deviation:
    """All of these together."""
    parts = list(deviations)
    return Deviation(
        broken=sum(part.broken for part in parts),
        worst=max((part.worst for part in parts), default=0.0),
        ratios=histogram.merged(part.ratios for part in parts),
    )


KEYS = ("run", "topic", "link", "class_", "role")
"""what a row is about"""

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
"""what a row counts"""

MANY = "*"
"""stands where merged rows are about different things"""

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
        """Frames with our headers, key frames, control and dictionaries."""
        return self.data_bytes + self.key_bytes + self.control_bytes + self.dictionary_bytes

    @property
    def saved(self) -> float | None:
        """The share of the raw bytes that did not become frame bytes; None where nothing raw was counted."""
        return 1 - self.frame_bytes / self.raw_bytes if self.raw_bytes else None

    @property
    def bytes_per_event(self) -> float | None:
        """Frame bytes an event; None without events."""
        return self.frame_bytes / self.events if self.events else None

    @property
    def ratios(self) -> Histogram:
        """The spread of error divided by bound over all properties."""
        return histogram.merged(part.ratios for part in self.errors.values())

    @property
    def error_max(self) -> float | None:
        """The largest error divided by its bound: up to 1 the promise was kept. None where nothing was checked."""
        return self.ratios.quantile(1.0)

    @property
    def error_p99(self) -> float | None:
        """The error divided by its bound that 99 of 100 checked values do not exceed."""
        return self.ratios.quantile(0.99)

    @property
    def broken(self) -> int:
        """How many checked values were beyond their bound."""
        return sum(part.broken for part in self.errors.values())


def merge(rows: Iterable[Row]) -> Row:
    """Rows as one. Counters add up, spreads are joined, the worst error stays the worst.

    A message is counted by the role that sends it and by the role that receives it: merge rows of one role.

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
        errors={name: merged(of) for name, of in _by_name(row.errors for row in parts).items()},
        latency_sent=histogram.merged(row.latency_sent for row in parts),
        latency_virtual=histogram.merged(row.latency_virtual for row in parts),
        cpu_seconds={role: sum(of) for role, of in _by_name(row.cpu_seconds for row in parts).items()},
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
    """Adds up one row; the row it gives is a snapshot, the tally goes on."""

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
        """Add to counters by their names; either all of them or none."""
        for name, amount in amounts.items():
            if name not in self._counts:
                raise LedgerError("no such counter", counter=name, known=COUNTERS)
            if amount < 0:
                raise LedgerError("counters only grow", counter=name, amount=amount)
        for name, amount in amounts.items():
            self._counts[name] += amount

    def error(self, name: str, error: float, bound: float) -> None:
        """A value of a property was off by `error` and could be off by `bound`."""
        self._deviation(name).add(error, bound)

    def errors(self, name: str, errors: ArrayLike, bounds: ArrayLike) -> None:
        """The same for a column of values."""
        self._deviation(name).add_many(errors, bounds)

    def latency(self, seconds: float, *, virtual: bool = False) -> None:
        """An event reached its subscriber this long after it happened; virtual ones are kept apart."""
        (self._virtual if virtual else self._sent).add(seconds)

    def latencies(self, seconds: ArrayLike, *, virtual: bool = False) -> None:
        """The same for a column of events."""
        (self._virtual if virtual else self._sent).add_many(seconds)

    def cpu(self, role: str, seconds: float) -> None:
        """A role used this much processor time."""
        if not seconds >= 0:
            raise LedgerError("processor time is a number from 0 upwards", role=role, seconds=seconds)
        self._cpu[role] = self._cpu.get(role, 0.0) + seconds

    def row(self) -> Row:
        """What was counted so far."""
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
