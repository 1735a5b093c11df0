"""What was promised to a subscriber, against what audits found: now and then an event travels exactly as well.

>>> promises = Promises()
>>> promises.note(Audit("p1", ("T1",), 7, {"t": 0.25}, {"t": 0.5}, {"t": 205}))
>>> promises.note(Audit("p1", ("T1",), 9, {"t": 0.75}, {"t": 0.5}, {"t": 212}))
>>> promises.rows({"t": 0.5})
[Row(property='t', tolerance=0.5, bound=0.5, audits=2, largest=0.75, p99=0.75, broken=1)]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from thinwire.cli.output import Output
from thinwire.codec import Audit
from thinwire.ledger.histogram import Histogram
from thinwire.ledger.row_deviation import Deviation

COLUMNS = ["property", "asked", "promised", "audits", "largest error", "p99", "broken"]
_NONE = "no audits came: they travel on topics that are registered with audit_every=N, one in N events"


class Row(NamedTuple):
    """One property: what was asked and promised at most, and how far off it was found.

    bound: the widest that was promised, None where an event came without a promise
    broken: values further off than was promised
    """

    property: str
    tolerance: float | None
    bound: float | None
    audits: int
    largest: float
    p99: float | None
    broken: int


@dataclass
class _Found:
    """What audits found of one property."""

    promised: bool = True
    bound: float = 0.0
    deviation: Deviation = field(default_factory=Deviation)
    errors: Histogram = field(default_factory=Histogram)

    def note(self, error: float, bound: float | None) -> None:
        self.errors.add(error)
        if bound is None:
            self.promised = False
            return
        self.bound = max(self.bound, bound)
        self.deviation.add(error, bound)


class Promises:
    """Collects audits."""

    def __init__(self) -> None:
        self._found: dict[str, _Found] = {}

    @property
    def broken(self) -> bool:
        """Was anything further off than promised?"""
        return any(found.deviation.broken for found in self._found.values())

    def note(self, audit: Audit) -> None:
        """What one audit found."""
        for name, error in audit.errors.items():
            self._found.setdefault(name, _Found()).note(error, audit.bound.get(name))

    def rows(self, tolerances: Mapping[str, float]) -> list[Row]:
        """What was found of every property that was asked for."""
        return [
            Row(
                name,
                tolerances[name],
                found.bound if found.promised else None,
                found.errors.count,
                max(found.errors.most, 0.0),
                found.errors.quantile(0.99),
                found.deviation.broken,
            )
            for name, found in self._found.items()
            if name in tolerances
        ]

    def show(self, topic: str, feed: str, tolerances: Mapping[str, float], *, json: bool) -> None:
        """A table on standard error; with `json` a document on standard output as well."""
        out = Output(json=True)
        rows = self.rows(tolerances)
        if rows:
            out.table(f"{topic}: promises and facts, read from the {feed}", COLUMNS, rows)
        else:
            out.note(_NONE)
        if json:
            out.document({"topic": topic, "feed": feed, "properties": [row._asdict() for row in rows]})
