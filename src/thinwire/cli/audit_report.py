"""Comparison of bounds with the errors that audit frames measured, for `thinwire sub --audit`.

An audit frame contains the exact values of an event, so that a subscriber can measure the errors of its own values.

>>> report = AuditReport()
>>> report.add(Audit("p1", ("T1",), 7, {"t": 0.25}, {"t": 0.5}, {"t": 205}))
>>> report.add(Audit("p1", ("T1",), 9, {"t": 0.75}, {"t": 0.5}, {"t": 212}))
>>> [row] = report.rows({"t": 0.5})
>>> row["bound"], row["audits"], row["largest"], row["broken"]
(0.5, 2, 0.75, 1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from thinwire.cli.output import Output
from thinwire.codec import Audit
from thinwire.ledger.histogram import Histogram


class AuditReport:
    """Errors per property, collected from audit frames."""

    def __init__(self) -> None:
        self._errors: dict[str, Histogram] = {}
        self._bounds: dict[str, float | None] = {}
        """the largest bound by property, None if an event had no bound"""
        self._violations: Counter[str] = Counter()

    @property
    def has_violations(self) -> bool:
        """Whether a value had an error above its bound."""
        return self._violations.total() > 0

    def add(self, audit: Audit) -> None:
        for name, error in audit.errors.items():
            self._errors.setdefault(name, Histogram()).add(error)
            bound, largest = audit.bound.get(name), self._bounds.get(name, 0.0)
            self._bounds[name] = None if bound is None or largest is None else max(largest, bound)
            self._violations[name] += bound is not None and error > bound

    def rows(self, tolerances: Mapping[str, float]) -> list[dict[str, Any]]:
        """Return the results of the properties with a tolerance.

        bound: the largest bound, None if an event had no bound
        audits: number of audit frames
        largest, p99: the largest error, and the 99th percentile of the errors
        broken: number of values with an error above their bound
        """
        return [
            {
                "property": name,
                "tolerance": tolerances[name],
                "bound": self._bounds[name],
                "audits": errors.count,
                "largest": errors.most,
                "p99": errors.quantile(0.99),
                "broken": self._violations[name],
            }
            for name, errors in self._errors.items()
            if name in tolerances
        ]

    def show(self, topic: str, feed: str, tolerances: Mapping[str, float], *, json: bool) -> None:
        """Print a table to stderr; with `json` also a document to stdout."""
        output = Output(json=True)
        rows = self.rows(tolerances)
        if rows:
            output.records(f"{topic}: bounds and measured errors, read from the {feed}", list(rows[0]), rows)
        else:
            output.note(
                "no audit frames arrived: topics registered with audit_every=N send one in N events as an audit frame"
            )
        if json:
            output.document({"topic": topic, "feed": feed, "properties": rows})
