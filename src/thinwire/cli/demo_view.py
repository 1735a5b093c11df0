"""How a demonstration looks: two tables, 80 columns wide, and a line; drawn from a `View` and nothing else."""

from __future__ import annotations

from rich import box
from rich.console import Group
from rich.table import Table

from thinwire.evaluation.demo import Channel, Seat, View
from thinwire.ledger import Histogram

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


def tables(view: View, seconds: float) -> Group:
    """The subscribers, and below them what the translator does for each class."""
    title = f"thinwire demo: {view.elapsed:.0f} of {seconds:g} s, {view.events:,} events published"
    seats = _table(title, SEAT_COLUMNS)
    for seat in view.seats:
        seats.add_row(*_seat_cells(seat))
    channels = _table("", CHANNEL_COLUMNS)
    for channel in view.translating.channels:
        channels.add_row(*_channel_cells(channel))
    channels.caption = caption(view)
    channels.caption_justify = "left"
    return Group(seats, "", channels)


def caption(view: View) -> str:
    """What the log and the translator cost, in two lines."""
    lines = []
    if view.phases:
        now = view.phases[-1]
        each = f"{now.row.bytes_per_event or 0:.2f} bytes an event"
        lines.append(f"the log is within {now.in_force} now: {each}, {percent(now.row.saved)} saved")
    spent = view.translating.cpu_per_event
    if spent is not None:
        took = f"{view.translating.row.events:,} events: {1e6 * spent:.0f} us of CPU each, for all classes"
        lines.append(f"the translator took in {took}")
    return "\n".join(lines)


def line(view: View) -> str:
    """The same in one line, where there is no terminal."""
    parts = [f"{view.elapsed:5.1f} s  {view.events:,} events"]
    if view.phases:
        now = view.phases[-1]
        parts.append(f"the log is within {now.in_force}: {now.row.bytes_per_event or 0:.1f} bytes an event")
    parts += [f"{seat.name} ({seat.reads}): {percent(seat.row.saved)} saved" for seat in view.seats if seat.row.events]
    return ", ".join(parts)


def verdict(view: View) -> list[str]:
    """What is to be said about the promises."""
    told = [_joining(seat) for seat in view.seats if seat.early or seat.read_back]
    if view.kept:
        checked = sum(seat.checked for seat in view.seats)
        return [*told, f"every promise was kept and no event was lost: {checked:,} times an event was checked."]
    broken = [
        f"within {seat.name}: {seat.broken:,} events beyond their promise, {seat.lost:,} lost; {seat.breach}"
        for seat in view.seats
        if not seat.kept
    ]
    return [*told, *broken]


def stored(view: View) -> str:
    """What the broker keeps."""
    kept = (f"{size(row.stored_bytes)} in {row.messages:,} messages ({row.link})" for row in view.stored)
    return f"the broker keeps {', '.join(kept)}."


def _joining(seat: Seat) -> str:
    """What it took to join a stream that flows."""
    back = size(seat.read_back)
    said = f"within {seat.name}: on joining it read back {back} of frames to know where the plants stood"
    if not seat.early:
        return f"{said}."
    return f"{said}; {seat.early:,} events came before publishers knew of it, each within the wider bound it carried."


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
    return "-" if share is None else f"{_hundredth(share)} %"


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table


def _seat_cells(seat: Seat) -> tuple[str, ...]:
    if not seat.joined:
        return (seat.name, f"{seat.joins_at:.0f} s on")
    row = seat.row
    return (
        seat.name,
        seat.reads,
        f"{row.events:,}",
        _of(1e6, row.raw_bytes),
        _of(1e3, row.frame_bytes),
        _hundredth(row.saved),
        _of(1e6, seat.json_link_bytes),
        _of(1e6, seat.link_bytes),
        _hundredth(row.error_max) if seat.kept else "BROKEN" if seat.broken else "LOST",
        _milliseconds(row.latency_sent),
        _milliseconds(row.latency_virtual),
    )


def _channel_cells(channel: Channel) -> tuple[str, ...]:
    row = channel.row
    asks = (channel.name, f"{channel.subscribers}")
    if not row.frames:
        return (*asks, "-", "-", "-", "-", _of(1e3, channel.log_bytes), "-", _of(1e6, channel.link_bytes))
    return (
        *asks,
        f"{row.events:,}",
        f"{row.frames:,}",
        f"{row.bytes_per_event or 0:.2f}",
        _of(1e3, row.frame_bytes),
        _of(1e3, channel.log_bytes),
        _hundredth(channel.less),
        _of(1e6, channel.link_bytes),
    )


def _of(one: float, count: int) -> str:
    """
    >>> _of(1e6, 7_902_311), _of(1e6, 61_004), _of(1e3, 56_912), _of(1e3, 1_204_912)
    ('7.9', '0.06', '56.9', '1,205')
    """
    amount = count / one
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.{1 if amount >= 1 else 2}f}"


def _hundredth(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.4g}"


def _milliseconds(spread: Histogram) -> str:
    middle, high = (spread.quantile(share) for share in (0.5, 0.99))
    return "-" if middle is None or high is None else f"{1e3 * middle:.0f}/{1e3 * high:.0f}"
