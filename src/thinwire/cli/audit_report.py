"""Comparison of bounds with the errors that audit frames measured, for `thinwire sub --audit`.

>>> report = AuditReport()
>>> report.add(Audit("p1", ("T1",), 7, {"t": 0.25}, {"t": 0.5}, {"t": 205}))
>>> report.add(Audit("p1", ("T1",), 9, {"t": 0.75}, {"t": 0.5}, {"t": 212}))
>>> report.rows({"t": 0.5})
[PropertyAudit(property='t', tolerance=0.5, bound=0.5, audits=2, largest=0.75, p99=0.75, broken=1)]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from thinwire.cli.output import Output
from thinwire.codec import Audit
from thinwire.ledger.histogram import Histogram
from thinwire.ledger.row import Deviation

_COLUMNS = ("property", "tolerance", "bound", "audits", "largest", "p99", "broken")
_NO_AUDITS = "no audit frames arrived: topics registered with audit_every=N send one in N events as an audit frame"


@dataclass(frozen=True)
class PropertyAudit:
    """Audit result of one property.

    bound: the largest bound, None if an event came without a bound
    broken: values with an error above their bound
    """

    property: str
    tolerance: float | None
    bound: float | None
    audits: int
    largest: float
    p99: float | None
    broken: int


@dataclass
class _Measured:
    """Errors of one property."""

    always_bounded: bool = True
    bound: float = 0.0
    deviation: Deviation = field(default_factory=Deviation)
    errors: Histogram = field(default_factory=Histogram)

    def add(self, error: float, bound: float | None) -> None:
        self.errors.add(error)
        if bound is None:
            self.always_bounded = False
            return
        self.bound = max(self.bound, bound)
        self.deviation.add(error, bound)


class AuditReport:
    """Errors per property, collected from audit frames."""

    def __init__(self) -> None:
        self._measured: dict[str, _Measured] = {}

    @property
    def broken(self) -> bool:
        """Whether a value had an error above its bound."""
        return any(measured.deviation.broken for measured in self._measured.values())

    def add(self, audit: Audit) -> None:
        """Add the errors of one audit frame."""
        for name, error in audit.errors.items():
            self._measured.setdefault(name, _Measured()).add(error, audit.bound.get(name))

    def rows(self, tolerances: Mapping[str, float]) -> list[PropertyAudit]:
        """Return the results of the properties with a tolerance."""
        return [
            PropertyAudit(
                name,
                tolerances[name],
                measured.bound if measured.always_bounded else None,
                measured.errors.count,
                max(measured.errors.most, 0.0),
                measured.errors.quantile(0.99),
                measured.deviation.broken,
            )
            for name, measured in self._measured.items()
            if name in tolerances
        ]

    def show(self, topic: str, feed: str, tolerances: Mapping[str, float], *, json: bool) -> None:
        """Print a table to stderr; with `json` also a document to stdout."""
        output = Output(json=True)
        rows = self.rows(tolerances)
        if rows:
            output.records(f"{topic}: bounds and measured errors, read from the {feed}", _COLUMNS, rows)
        else:
            output.note(_NO_AUDITS)
        if json:
            output.document({"topic": topic, "feed": feed, "properties": rows})
