"""How a demonstration looks: tables, 80 columns wide, and a line; drawn from a `DemoView` and nothing else.

How numbers of a demonstration are written.

A demonstration as a document.
"""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from thinwire.demo import ChannelView, DemoView, Phase, SubscriberView, TableView, Translating
from thinwire.ledger import Histogram


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
    return "-" if share is None else f"{hundredth(share)} %"


def amount(one: float, count: int) -> str:
    """
    >>> amount(1e6, 7_902_311), amount(1e6, 61_004), amount(1e3, 56_912), amount(1e3, 1_204_912)
    ('7.9', '0.06', '56.9', '1,205')
    """
    units = count / one
    return f"{units:,.0f}" if units >= 100 else f"{units:.{1 if units >= 1 else 2}f}"


def hundredth(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.4g}"


def tenths(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


def milliseconds(spread: Histogram) -> str:
    middle, high = (spread.quantile(share) for share in (0.5, 0.99))
    return "-" if middle is None or high is None else f"{1e3 * middle:.0f}/{1e3 * high:.0f}"


SEAT_COLUMNS = (
    "within",
    "reads",
    "events",
    "raw\nJSON\nMB",
    "frames\n\nkB",
    "saved\n\n%",
    "link,\nJSON\nMB",
    "link,\nours\nMB",
    "worst\nerror\n%",
    "sent\np50/99\nms",
    "virtual\np50/99\nms",
)
CHANNEL_COLUMNS = (
    "translator:\nclass within",
    "sub-\nscribers",
    "events\nin",
    "frames\nout",
    "bytes\nan event",
    "channel\nkB",
    "the log\nkB",
    "less than\nthe log, %",
    "link\nMB",
)
LANDING_COLUMNS = (
    "Spark:\nasks within",
    "rows in\nthe table",
    "events of a\nsubscriber",
    "rows that\ndiffer",
    "read\nMB",
    "Parquet\nMB",
    "first rows\nafter, s",
    "all landed\nafter, s",
)
EXPLANATION = (
    "the log is as fine as the strictest asks, who reads it; for others the translator makes a channel a class of it.",
    "changes: handed an event only where a value has moved; the last one it has must stay within the tolerance.",
    "raw JSON: the events it was handed, with the properties it asked for and no others.",
    "frames: all bytes of the frames it read, key frames, heartbeats and what it read back on joining included.",
    "link: all bytes on its socket and, since it joined, on the publishers', both ways, counted by a proxy on each.",
    "link, JSON: the same events as a message each to one subscriber, by the text of the protocol, set-up left out.",
    "worst error: of what was promised, over every value of every event, against the truth.",
    "latency: from the instant an event was due to its delivery; a virtual one waits for the next frame of its plant.",
    "the translator's table: since the channel is there; link: everything on its subscribers' sockets since they came.",
)


SPARK_EXPLANATION = (
    "Spark: it asks for what the first subscriber asks for, and lands the log; read: all that came on its sockets.",
    "events of a subscriber: one that reads the log from its first event, after the last; all values and bounds count.",
)


def explanation(view: DemoView) -> tuple[str, ...]:
    """What the columns are."""
    return EXPLANATION if view.landing is None else (*EXPLANATION, *SPARK_EXPLANATION)


def tables(view: DemoView, seconds: float) -> Group:
    """The subscribers, below them what the translator does for each class, and the table that Spark makes."""
    title = f"thinwire demo: {view.elapsed:.0f} of {seconds:g} s, {view.events:,} events published"
    seats = _table(title, SEAT_COLUMNS)
    for seat in view.seats:
        seats.add_row(*_seat_cells(seat))
    channels = _table("", CHANNEL_COLUMNS)
    for channel in view.translating.channels:
        channels.add_row(*_channel_cells(channel))
    channels.caption = caption(view)
    channels.caption_justify = "left"
    if view.landing is None:
        return Group(seats, "", channels)
    table = _table("", LANDING_COLUMNS)
    table.add_row(*_landing_cells(view.landing))
    return Group(seats, "", channels, "", table)


def caption(view: DemoView) -> str:
    """What the log and the translator cost, in two lines, and what one waits for."""
    lines = []
    if view.phases:
        now = view.phases[-1]
        each = f"{now.row.bytes_per_event or 0:.2f} bytes an event"
        lines.append(f"the log is within {now.in_force} now: {each}, {percent(now.row.saved)} saved")
    spent = view.translating.cpu_per_event
    if spent is not None:
        took = f"{view.translating.row.events:,} events: {1e6 * spent:.0f} us of CPU each, for all classes"
        lines.append(f"the translator took in {took}")
    if view.landing is not None and view.landing.first is None:
        lines.append("Spark is starting, which takes a while; what is published meanwhile lands later")
    return "\n".join(lines)


def line(view: DemoView) -> str:
    """The same in one line, where there is no terminal."""
    parts = [f"{view.elapsed:5.1f} s  {view.events:,} events"]
    if view.phases:
        now = view.phases[-1]
        parts.append(f"the log is within {now.in_force}: {now.row.bytes_per_event or 0:.1f} bytes an event")
    parts += [f"{seat.name} ({seat.reads}): {percent(seat.row.saved)} saved" for seat in view.seats if seat.row.events]
    if view.landing is not None:
        parts.append(f"Spark: {view.landing.rows:,} rows")
    return ", ".join(parts)


def verdict(view: DemoView) -> list[str]:
    """What is to be said about the promises."""
    told = [_joining(seat) for seat in view.seats if seat.early or seat.read_back]
    if view.landing is not None:
        told.append(_comparison(view.landing))
    if all(seat.kept for seat in view.seats):
        checked = sum(seat.checked for seat in view.seats)
        return [*told, f"every promise was kept and no event was lost: {checked:,} times an event was checked."]
    broken = [
        f"within {seat.name}: {seat.broken:,} events beyond their promise, {seat.lost:,} lost; {seat.breach}"
        for seat in view.seats
        if not seat.kept
    ]
    return [*told, *broken]


def stored(view: DemoView) -> str:
    """What the broker keeps."""
    kept = (f"{size(row.stored_bytes)} in {row.messages:,} messages ({row.link})" for row in view.stored)
    return f"the broker keeps {', '.join(kept)}."


def _joining(seat: SubscriberView) -> str:
    """What it took to join a stream that flows."""
    back = size(seat.read_back)
    said = f"within {seat.name}: on joining it read back {back} of frames to know where the plants stood"
    if not seat.early:
        return f"{said}."
    return f"{said}; {seat.early:,} events came before publishers knew of it, each within the wider bound it carried."


def _comparison(landing: TableView) -> str:
    """The table beside a subscriber."""
    if landing.problem:
        return f"Spark: {landing.problem}"
    rows, heard = f"{landing.rows:,} rows", f"{landing.heard or 0:,} events"
    if landing.equal:
        return f"Spark: the {rows} of the table are, bit for bit, the {heard} that a subscriber of the log is handed."
    beside = f"a subscriber of the log is handed {heard}, and {landing.published:,} were published"
    return f"Spark: THE TABLE DIFFERS: it has {rows}, {beside}; {landing.differing:,} rows are not the same."


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table


def _seat_cells(seat: SubscriberView) -> tuple[str, ...]:
    if not seat.joined:
        return (seat.name, f"{seat.joins_at:.0f} s on")
    row = seat.row
    return (
        seat.name,
        seat.reads,
        f"{row.events:,}",
        amount(1e6, row.raw_bytes),
        amount(1e3, row.frame_bytes),
        hundredth(row.saved),
        amount(1e6, seat.json_link_bytes),
        amount(1e6, seat.link_bytes),
        hundredth(row.error_max) if seat.kept else "BROKEN" if seat.broken else "LOST",
        milliseconds(row.latency_sent),
        milliseconds(row.latency_virtual),
    )


def _channel_cells(channel: ChannelView) -> tuple[str, ...]:
    row = channel.row
    asks = (channel.name, f"{channel.subscribers}")
    if not row.frames:
        return (*asks, "-", "-", "-", "-", amount(1e3, channel.log_bytes), "-", amount(1e6, channel.link_bytes))
    return (
        *asks,
        f"{row.events:,}",
        f"{row.frames:,}",
        f"{row.bytes_per_event or 0:.2f}",
        amount(1e3, row.frame_bytes),
        amount(1e3, channel.log_bytes),
        hundredth(channel.less),
        amount(1e6, channel.link_bytes),
    )


def _landing_cells(landing: TableView) -> tuple[str, ...]:
    compared = landing.heard is not None
    return (
        landing.row.class_,
        f"{landing.rows:,}",
        f"{landing.heard:,}" if compared else "-",
        f"{landing.differing:,}" if compared else "-",
        amount(1e6, landing.bytes_read),
        amount(1e6, landing.row.stored_bytes),
        tenths(landing.first),
        tenths(landing.seconds),
    )


def facts(view: DemoView) -> dict[str, Any]:
    """All that the tables say, and what they leave out for want of room."""
    return {
        "seconds": view.elapsed,
        "events": view.events,
        "kept": view.kept,
        "stored": [{name: getattr(row, name) for name in ("link", "messages", "stored_bytes")} for row in view.stored],
        "subscribers": [_seat(seat) for seat in view.seats],
        "translator": _translating(view.translating),
        "phases": [_phase(phase) for phase in view.phases],
        "spark": None if view.landing is None else _landing(view.landing),
    }


def _seat(seat: SubscriberView) -> dict[str, Any]:
    row = seat.row
    return {
        "class": seat.name,
        **seat.guest.asks,
        "joined": seat.joined,
        "reads": seat.reads,
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


def _translating(translating: Translating) -> dict[str, Any]:
    return {
        "events": translating.row.events,
        "cpu_seconds": sum(translating.row.cpu_seconds.values()),
        "cpu_seconds_per_event": translating.cpu_per_event,
        "link_bytes": translating.row.link_bytes,
        "classes": [_channel(channel) for channel in translating.channels],
    }


def _channel(channel: ChannelView) -> dict[str, Any]:
    row = channel.row
    return {
        "class": channel.name,
        "subscribers": channel.subscribers,
        "reads": channel.reads,
        **{name: getattr(row, name) for name in ("events", "frames", "frame_bytes", "bytes_per_event")},
        "log_bytes": channel.log_bytes,
        "less": channel.less,
        "link_bytes": channel.link_bytes,
    }


def _phase(phase: Phase) -> dict[str, Any]:
    row = phase.row
    counters = ("events", "suppressed_events", "raw_bytes", "frame_bytes", "bytes_per_event", "saved", "link_bytes")
    return {"in_force": phase.in_force, **{name: getattr(row, name) for name in counters}}


def _landing(landing: TableView) -> dict[str, Any]:
    told = ("rows", "equal", "heard", "published", "differing", "bytes_read", "first", "seconds", "problem")
    counters = ("link_bytes", "stored_bytes")
    return {
        "class": landing.row.class_,
        **{name: getattr(landing, name) for name in told},
        **{name: getattr(landing.row, name) for name in counters},
    }


def _quantiles(spread: Histogram) -> dict[str, float | int | None]:
    return {"count": spread.count, "p50": spread.quantile(0.5), "p99": spread.quantile(0.99)}
