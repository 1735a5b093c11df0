"""What there is to see of the translator: what it takes in, and what it makes of it for each class.

What there is to see of the table that Spark lands the stream in.

What there is to see of the two ends: the subscribers, each on its seat, and the publishers, phase by phase.

What there is to see of a demonstration at one moment; the drawing reads nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from thinwire.demo.demo_scenario import TOPIC, Guest
from thinwire.ledger import Row, from_document, merge


@dataclass(frozen=True)
class TableView:
    """A table beside the live subscribers.

    row: of the ledger: rows as events, all bytes on Spark's sockets, and those of the files
    bytes_read: what Spark has read from the broker, everything on its sockets
    first: seconds from the start of Spark to the first rows; None before them
    seconds: from the last event to the last row; None while events flow
    published: events that the plants published; heard: those that a subscriber of the log was handed
    differing: rows that are not the same as the subscriber's events, or that only one of both has
    problem: why the table could not be landed, in words
    """

    row: Row
    bytes_read: int = 0
    first: float | None = None
    seconds: float | None = None
    published: int = 0
    heard: int | None = None
    differing: int = 0
    problem: str = ""

    @property
    def rows(self) -> int:
        return self.row.events

    @property
    def equal(self) -> bool | None:
        """Are table, subscriber and plants of one mind? None before they were compared."""
        if self.problem:
            return False
        if self.heard is None:
            return None
        return self.rows == self.heard == self.published and not self.differing

    def compared(self, published: int, heard: int, differing: int) -> TableView:
        """The same with what the comparison told."""
        return replace(self, published=published, heard=heard, differing=differing)


REPORTED = ("json_link_bytes", "read_back", "checked", "broken", "lost", "early", "breach")


@dataclass(frozen=True)
class SubscriberView:
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

    def reported(self, report: dict[str, Any], own_bytes: int, publishers_bytes: int) -> SubscriberView:
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


@dataclass(frozen=True)
class ChannelView:
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
    channels: tuple[ChannelView, ...] = ()

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


def channel_of(seat: SubscriberView, report: Mapping[str, Any], subscribers: int) -> ChannelView:
    """The class of this seat, as the translator reports of it."""
    told = report["classes"].get(seat.guest.class_id, {})
    counted = {name: told.get(name, 0) for name in COUNTED}
    row = Row(seat.row.run, TOPIC, "channel", seat.name, "translator", **counted)
    log_bytes = told["log_bytes"] if told else seat.row.frame_bytes
    return ChannelView(row, subscribers, seat.reads, log_bytes, seat.row.link_bytes)


@dataclass(frozen=True)
class DemoView:
    """A moment.

    seats: in the order in which they join; phases: in the order in which they came
    stored: what the broker keeps of the log, and of the channels
    landing: the table that Spark lands the stream in; None where it takes no part
    """

    elapsed: float
    seats: tuple[SubscriberView, ...]
    translating: Translating
    phases: tuple[Phase, ...] = ()
    stored: tuple[Row, ...] = ()
    landing: TableView | None = None

    @property
    def events(self) -> int:
        """Events published."""
        return sum(phase.row.events for phase in self.phases)

    @property
    def kept(self) -> bool:
        """Was every promise kept, and is the table, where there is one, what it must be?"""
        return all(seat.kept for seat in self.seats) and (self.landing is None or self.landing.equal is not False)
