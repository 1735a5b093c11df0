"""The tally: what a run adds to while it goes, and makes its row from.

>>> tally = Tally(run="demo", topic="building.rooms", role="publisher")
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

from numpy.typing import ArrayLike

from thinwire.errors import LedgerError
from thinwire.ledger.histogram import Histogram
from thinwire.ledger.row import COUNTERS, Row
from thinwire.ledger.row_deviation import Deviation


class Tally:
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
