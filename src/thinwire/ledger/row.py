"""The row: what one role of one run did on one topic, link and class.

Bytes are counted on two planes. *Frame bytes* are what thinwire itself decides: frames with their headers, key frames,
control, dictionaries. *Link bytes* are everything on the socket, both directions, subjects and acknowledgements
included. Savings are stated on the first, with the second beside them.

>>> row = Row(run="demo", topic="building.rooms", events=100, raw_bytes=88_500, data_bytes=1_100, key_bytes=670)
>>> row.frame_bytes, row.saved
(1770, 0.98)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from thinwire.errors import LedgerError
from thinwire.ledger import histogram
from thinwire.ledger import row_deviation as deviation
from thinwire.ledger.histogram import Histogram
from thinwire.ledger.row_deviation import Deviation

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
        errors={name: deviation.merged(of) for name, of in _by_name(row.errors for row in parts).items()},
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
