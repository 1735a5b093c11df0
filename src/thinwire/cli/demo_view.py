"""How a demonstration looks: two tables, 80 columns wide, and a line; drawn from a `View` and nothing else."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from thinwire.evaluation.demo import Phase, Seat, View
from thinwire.ledger import Histogram

SEAT_COLUMNS = (
    "within",
    "events",
    "raw\nJSON",
    "frames",
    "saved",
    "link,\nJSON",
    "link,\nframes",
    "worst\nerror",
    "sent ms\np50/p99",
    "virtual\np50/p99",
)
PHASE_COLUMNS = (
    "while the strictest\nasked for",
    "events",
    "of them\nunsent",
    "raw JSON,\nbytes an event",
    "frames,\nbytes an event",
    "saved",
)
EXPLANATION = (
    "one log serves all subscribers and is as exact as the strictest asks; a translator for coarser ones is to come.",
    "frames: all bytes of the frames it read, key frames, heartbeats and what it read back on joining included.",
    "link: all bytes on its socket and, since it joined, on the publishers', both ways, counted by a proxy on each.",
    "link, JSON: the same events as a message each to one subscriber, by the text of the protocol, set-up left out.",
    "worst error: of what was promised, over every value of every event, against the truth.",
    "latency: from the instant an event was due to its delivery; a virtual one waits for the next frame of its plant.",
)


def tables(view: View, seconds: float) -> Group:
    """The subscribers, and below them what each tolerance in force cost."""
    title = f"thinwire demo: {view.elapsed:.0f} of {seconds:g} s, {view.events:,} events published"
    seats = _table(title, SEAT_COLUMNS)
    for seat in view.seats:
        seats.add_row(*_seat_cells(seat))
    phases = _table("", PHASE_COLUMNS)
    for phase in view.phases:
        phases.add_row(*_phase_cells(phase))
    return Group(seats, phases)


def line(view: View) -> str:
    """The same in one line, where there is no terminal."""
    parts = [f"{view.elapsed:5.1f} s  {view.events:,} events"]
    if view.phases:
        now = view.phases[-1]
        parts.append(f"the strictest asks for {now.tolerance:g}: {now.row.bytes_per_event or 0:.1f} bytes an event")
    parts += [f"within {seat.tolerance:g}: {percent(seat.row.saved)} saved" for seat in view.seats if seat.row.events]
    return ", ".join(parts)


def verdict(view: View) -> list[str]:
    """What is to be said about the promises."""
    told = [_joining(seat) for seat in view.seats if seat.early or seat.read_back]
    if view.kept:
        checked = sum(seat.checked for seat in view.seats)
        return [*told, f"every promise was kept and no event was lost: {checked:,} deliveries checked."]
    broken = [
        f"within {seat.tolerance:g}: {seat.broken:,} events beyond their promise, {seat.lost:,} lost; {seat.breach}"
        for seat in view.seats
        if not seat.kept
    ]
    return [*told, *broken]


def _joining(seat: Seat) -> str:
    """What it took to join a stream that flows."""
    return (
        f"within {seat.tolerance:g}: on joining it read back {size(seat.read_back)} of frames to know where the plants "
        f"stood; {seat.early:,} events came before publishers knew of it, each within the wider bound it carried."
    )


def facts(view: View) -> dict[str, Any]:
    """The same as a document."""
    return {
        "seconds": view.elapsed,
        "events": view.events,
        "kept": view.kept,
        "stored_messages": view.stored_messages,
        "stored_bytes": view.stored_bytes,
        "subscribers": [_seat_facts(seat) for seat in view.seats],
        "phases": [_phase_facts(phase) for phase in view.phases],
    }


def size(count: int) -> str:
    """
    >>> size(812), size(41_288), size(671_700), size(5_264_000)
    ('812 B', '41.3 kB', '672 kB', '5.3 MB')
    """
    for unit, one in (("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.{0 if count >= 100 * one else 1}f} {unit}"
    return f"{count} B"


def percent(share: float | None) -> str:
    """
    >>> percent(0.99254), percent(1.0), percent(None)
    ('99.25 %', '100 %', '-')
    """
    return "-" if share is None else f"{100 * share:.4g} %"


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _seat_cells(seat: Seat) -> tuple[str, ...]:
    if not seat.joined:
        return (f"{seat.tolerance:g}", f"from {seat.joins_at:.0f} s")
    row = seat.row
    return (
        f"{seat.tolerance:g}",
        f"{row.events:,}",
        size(row.raw_bytes),
        size(row.frame_bytes),
        percent(row.saved),
        size(seat.json_link_bytes),
        size(seat.link_bytes),
        percent(row.error_max) if seat.kept else "BROKEN" if seat.broken else "LOST",
        _milliseconds(row.latency_sent),
        _milliseconds(row.latency_virtual),
    )


def _phase_cells(phase: Phase) -> tuple[str, ...]:
    row = phase.row
    raw = row.raw_bytes / row.events if row.events else 0.0
    unsent = f"{row.suppressed_events:,}"
    each = f"{row.bytes_per_event or 0:.2f}"
    return (f"{phase.tolerance:g}", f"{row.events:,}", unsent, f"{raw:.0f}", each, percent(row.saved))


def _milliseconds(spread: Histogram) -> str:
    middle, high = (spread.quantile(share) for share in (0.5, 0.99))
    return "-" if middle is None or high is None else f"{1e3 * middle:.0f}/{1e3 * high:.0f}"


def _seat_facts(seat: Seat) -> dict[str, Any]:
    row = seat.row
    return {
        "tolerance": seat.tolerance,
        "joined": seat.joined,
        "events": row.events,
        "virtual_events": row.suppressed_events,
        **{name: getattr(seat, name) for name in ("checked", "broken", "lost", "early", "breach", "kept", "read_back")},
        "raw_bytes": row.raw_bytes,
        "frame_bytes": row.frame_bytes,
        "saved": row.saved,
        "json_link_bytes": seat.json_link_bytes,
        "link_bytes": seat.link_bytes,
        "worst_error": row.error_max,
        "latency_sent": _quantiles(row.latency_sent),
        "latency_virtual": _quantiles(row.latency_virtual),
    }


def _phase_facts(phase: Phase) -> dict[str, Any]:
    row = phase.row
    counters = ("events", "suppressed_events", "raw_bytes", "frame_bytes", "bytes_per_event", "saved", "link_bytes")
    return {"tolerance": phase.tolerance, **{name: getattr(row, name) for name in counters}}


def _quantiles(spread: Histogram) -> dict[str, float | int | None]:
    return {"count": spread.count, "p50": spread.quantile(0.5), "p99": spread.quantile(0.99)}
