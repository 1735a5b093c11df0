"""What there is to see of the translator: what it takes in, and what it makes of it for each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from thinwire.demo.demo_scenario_plants import TOPIC
from thinwire.demo.view_model_seats import Seat
from thinwire.ledger import Row


@dataclass(frozen=True)
class Channel:
    """What the translator did for one class so far.

    row: events that came in since its channel is there, the frames they became, and their bytes
    subscribers: who asks for it now; reads: what they read
    log_bytes: the log's frames meanwhile, which they would have read; where they read the log, what they did read
    link_bytes: on their sockets, everything
    """

    row: Row
    subscribers: int
    reads: str
    log_bytes: int
    link_bytes: int

    @property
    def name(self) -> str:
        return self.row.class_

    @property
    def less(self) -> float | None:
        """The share of the log's bytes that the channel spares; None where there is no channel."""
        return 1 - self.row.frame_bytes / self.log_bytes if self.row.frames and self.log_bytes else None


@dataclass(frozen=True)
class Translating:
    """The translator as a whole: `row` has what it took in, its processor time and its own socket."""

    row: Row
    channels: tuple[Channel, ...] = ()

    @property
    def cpu_per_event(self) -> float | None:
        """Seconds of its processor time for each event of the log, for all channels together."""
        return sum(self.row.cpu_seconds.values()) / self.row.events if self.row.events else None


COUNTED = ("events", "frames", "data_bytes", "key_bytes", "control_bytes")
"""what the translator tells of each class"""


def translator_row(run: str, report: Mapping[str, Any] | None = None, link_bytes: int = 0) -> Row:
    """The translator in the ledger; an empty row before it has reported."""
    row = Row(run, TOPIC, "log", role="translator", link_bytes=link_bytes)
    if report is None:
        return row
    return replace(row, events=report["events"], cpu_seconds={"translator": report["cpu"]})


def channel_of(seat: Seat, report: Mapping[str, Any], subscribers: int) -> Channel:
    """The class of this seat, as the translator reports of it."""
    told = report["classes"].get(seat.guest.class_id, {})
    counted = {name: told.get(name, 0) for name in COUNTED}
    row = Row(seat.row.run, TOPIC, "channel", seat.name, "translator", **counted)
    log_bytes = told["log_bytes"] if told else seat.row.frame_bytes
    return Channel(row, subscribers, seat.reads, log_bytes, seat.row.link_bytes)
