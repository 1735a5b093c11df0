"""What there is to see of the two ends: the subscribers, each on its seat, and the publishers, phase by phase."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from thinwire.demo.demo_scenario import Guest
from thinwire.ledger import Row, from_document, merge

REPORTED = ("json_link_bytes", "read_back", "checked", "broken", "lost", "early", "breach")


@dataclass(frozen=True)
class Seat:
    """One subscriber: what it asked for, what it was handed, and what that took.

    joins_at: seconds after the first event
    link_bytes: both sockets of the way, the publishers' since it joined and its own, everything on them
    read_back: frame bytes from before it joined, read to know where every plant stood
    json_link_bytes: what the same events as one JSON message each would be there, by the text of the broker's protocol
    """

    guest: Guest
    joins_at: float
    row: Row
    joined: bool = False
    link_bytes: int = 0
    json_link_bytes: int = 0
    read_back: int = 0
    checked: int = 0
    broken: int = 0
    lost: int = 0
    early: int = 0
    breach: str = ""

    @property
    def name(self) -> str:
        return self.guest.name

    @property
    def reads(self) -> str:
        """The "log" of the publishers, or a "channel" of its class."""
        return self.row.link

    @property
    def kept(self) -> bool:
        """Every event came, and none was off by more than it may."""
        return not self.broken and not self.lost

    def reported(self, report: dict[str, Any], own_bytes: int, publishers_bytes: int) -> Seat:
        """The same seat as its process has just told; the ledger's row has the socket that is its own."""
        facts = {name: report[name] for name in REPORTED}
        row = replace(from_document(report["row"]), link_bytes=own_bytes)
        return replace(self, row=row, joined=True, link_bytes=own_bytes + publishers_bytes, **facts)


@dataclass(frozen=True)
class Phase:
    """What all publishers together spent while the same was asked of them; in_force: the tolerances, in words."""

    in_force: str
    row: Row


def phases_of(reports: Iterable[dict[str, Any]]) -> tuple[Phase, ...]:
    """The phases of all publishers together: they go over to other tolerances at nearly the same moment."""
    grouped: dict[str, list[Row]] = {}
    for report in reports:
        for document in report["rows"]:
            row = from_document(document)
            grouped.setdefault(row.class_, []).append(row)
    return tuple(Phase(name, merge(rows)) for name, rows in grouped.items())
