"""Tables, lines and the JSON document of `thinwire demo`. Tables are at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from thinwire.demo import ChannelView, DemoView, SubscriberView, TableView
from thinwire.ledger import Histogram

SUBSCRIBERS = (
    "tolerance",
    "reads",
    "events",
    "raw\nJSON\nMB",
    "frames\n\nkB",
    "saved\n\n%",
    "link,\nJSON\nMB",
    "link,\nours\nMB",
    "max.\nerror/\ntoler.",
    "sent\np50/99\nms",
    "virtual\np50/99\nms",
)
CHANNELS = (
    "translator:\ntolerance",
    "sub-\nscribers",
    "events\nin",
    "frames\nout",
    "bytes/\nevent",
    "channel\nkB",
    "log\nkB",
    "saved vs\nlog, %",
    "link\nMB",
)
TABLE = (
    "Spark:\ntolerance",
    "rows in\ntable",
    "events\ndelivered",
    "rows that\ndiffer",
    "read\nMB",
    "Parquet\nMB",
    "first rows\nafter, s",
    "all rows\nafter, s",
)


def amount(count: int, unit: float) -> str:
    """
    >>> amount(7_902_311, 1e6), amount(61_004, 1e6), amount(56_912, 1e3), amount(1_204_912, 1e3)
    ('7.9', '0.06', '56.9', '1,205')
    """
    units = count / unit
    return f"{units:,.0f}" if units >= 100 else f"{units:.{1 if units >= 1 else 2}f}"


def percent(share: float | None) -> str:
    """
    >>> percent(0.99254), percent(1.0), percent(None)
    ('99.25', '100', '-')
    """
    return "-" if share is None else f"{100 * share:.4g}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _latency(histogram: Histogram) -> str:
    median, high = histogram.quantile(0.5), histogram.quantile(0.99)
    return "-" if median is None or high is None else f"{1e3 * median:.0f}/{1e3 * high:.0f}"


def tables(view: DemoView, seconds: float) -> Group:
    """Return the tables of subscribers, channels and, with Spark, the Parquet table."""
    title = f"thinwire demo: {view.elapsed:.0f} of {seconds:g} s, {view.events:,} events published"
    channels = _table("", CHANNELS, map(_channel_cells, view.channels))
    channels.caption, channels.caption_justify = "\n".join(_captions(view)), "left"
    parts: list[Table | str] = [_table(title, SUBSCRIBERS, map(_subscriber_cells, view.subscribers)), "", channels]
    if view.table is not None:
        parts += ["", _table("", TABLE, [_table_cells(view.table)])]
    return Group(*parts)


def _table(title: str, columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _subscriber_cells(view: SubscriberView) -> tuple[str, ...]:
    if not view.joined:
        return (view.subscription.name, f"at {view.joins_at:.0f} s")
    row = view.row
    return (
        view.subscription.name,
        row.link,
        _number(row.events),
        amount(row.raw_bytes, 1e6),
        amount(row.frame_bytes, 1e3),
        percent(row.saved),
        amount(view.json_link_bytes, 1e6),
        amount(view.link_bytes, 1e6),
        f"{row.error_max or 0:.4g}" if view.kept else "BROKEN" if view.broken else "LOST",
        _latency(row.latency_sent),
        _latency(row.latency_virtual),
    )


def _channel_cells(channel: ChannelView) -> tuple[str, ...]:
    row = channel.row
    figures = ("-",) * 4
    if row.frames:
        each = f"{row.bytes_per_event or 0:.2f}"
        figures = (_number(row.events), _number(row.frames), each, amount(row.frame_bytes, 1e3))
    log, link = amount(channel.log_bytes, 1e3), amount(channel.link_bytes, 1e6)
    return (row.class_, f"{channel.subscribers}", *figures, log, percent(channel.less), link)


def _table_cells(table: TableView) -> tuple[str, ...]:
    return (
        table.row.class_,
        _number(table.rows),
        _number(table.delivered),
        _number(table.differing if table.delivered is not None else None),
        amount(table.bytes_read, 1e6),
        amount(table.row.stored_bytes, 1e6),
        _seconds(table.first),
        _seconds(table.seconds),
    )


def _captions(view: DemoView) -> list[str]:
    lines = []
    if view.phases and (row := view.phases[-1]).events:
        each = f"{row.bytes_per_event or 0:.2f} bytes per event"
        lines.append(f"log: tolerance {row.class_}, {each}, {percent(row.saved)} % saved")
    if view.translator_cpu is not None:
        cpu = f"{1e6 * view.translator_cpu:.0f} us of CPU per event"
        lines.append(f"translator: {view.translator.events:,} events read, {cpu} for all channels")
    if view.table is not None and view.table.first is None:
        lines.append("Spark is starting; events published meanwhile are written later")
    return lines


def line(view: DemoView) -> str:
    """Return the main figures in one line."""
    parts = [f"{view.elapsed:5.1f} s  {view.events:,} events published"]
    if view.phases:
        row = view.phases[-1]
        parts.append(f"log: tolerance {row.class_}, {row.bytes_per_event or 0:.1f} bytes per event")
    for subscriber in view.subscribers:
        if subscriber.row.events:
            saved = f"{percent(subscriber.row.saved)} % saved"
            parts.append(f"{subscriber.subscription.name} ({subscriber.row.link}): {saved}")
    if view.table is not None:
        parts.append(f"Spark: {view.table.rows:,} rows")
    return "; ".join(parts)


def summary(view: DemoView, *, with_spark: bool) -> list[str]:
    """Return the result in words."""
    lines = [""]
    if view.table is not None:
        lines.append(_comparison(view.table))
    elif with_spark:
        lines.append("Spark was stopped before the first rows; no table to compare")
    violated = [subscriber for subscriber in view.subscribers if not subscriber.kept]
    for subscriber in violated:
        problems = f"{subscriber.broken:,} events violate their bound, {subscriber.lost:,} were lost"
        lines.append(f"subscriber {subscriber.subscription.name}: {problems}; {subscriber.breach}")
    if not violated:
        checked = sum(subscriber.checked for subscriber in view.subscribers)
        early = sum(subscriber.early for subscriber in view.subscribers)
        lines.append(f"{checked:,} events checked: all within their bound, none lost")
        lines.append(f"{early:,} of them had a larger bound, from before the publishers applied a new tolerance")
    stored = (f"{amount(row.stored_bytes, 1e3)} kB in {row.messages:,} messages ({row.link})" for row in view.stored)
    return [*lines, f"stored by the broker: {', '.join(stored)}"]


def _comparison(table: TableView) -> str:
    if table.problem:
        return f"Spark: {table.problem}"
    events = f"the {table.delivered or 0:,} events that a subscriber of the log received"
    if table.equal:
        return f"Spark: the {table.rows:,} rows of the table equal {events}, bit for bit"
    published = f"{table.published:,} events were published"
    return f"Spark: THE TABLE DIFFERS: {table.rows:,} rows, {events}, {table.differing:,} rows differ, {published}"


def facts(view: DemoView) -> dict[str, Any]:
    """Return the JSON document."""
    phases = "events suppressed_events raw_bytes frame_bytes bytes_per_event saved link_bytes"
    return {
        "seconds": view.elapsed,
        "events": view.events,
        "kept": view.kept,
        "stored": [_pick(row, "link messages stored_bytes") for row in view.stored],
        "subscribers": [_subscriber_facts(subscriber) for subscriber in view.subscribers],
        "translator": {
            "events": view.translator.events,
            "cpu_seconds": sum(view.translator.cpu_seconds.values()),
            "cpu_seconds_per_event": view.translator_cpu,
            "link_bytes": view.translator.link_bytes,
            "classes": [_channel_facts(channel) for channel in view.channels],
        },
        "phases": [{"in_force": row.class_, **_pick(row, phases)} for row in view.phases],
        "spark": None if view.table is None else _table_facts(view.table),
    }


def _subscriber_facts(view: SubscriberView) -> dict[str, Any]:
    own = "joined checked broken lost early breach kept read_back json_link_bytes link_bytes"
    return {
        "class": view.subscription.name,
        **view.subscription.request,
        **_pick(view, own),
        **_pick(view.row, "events raw_bytes frame_bytes saved"),
        "reads": view.row.link,
        "virtual_events": view.row.suppressed_events,
        "worst_error": view.row.error_max,
        "latency_sent": _quantiles(view.row.latency_sent),
        "latency_virtual": _quantiles(view.row.latency_virtual),
    }


def _channel_facts(channel: ChannelView) -> dict[str, Any]:
    figures = _pick(channel.row, "events frames frame_bytes bytes_per_event")
    return {"class": channel.row.class_, **_pick(channel, "subscribers reads log_bytes less link_bytes"), **figures}


def _table_facts(table: TableView) -> dict[str, Any]:
    return {
        "class": table.row.class_,
        "heard": table.delivered,
        **_pick(table, "rows equal published differing bytes_read first seconds problem"),
        **_pick(table.row, "link_bytes stored_bytes"),
    }


def _pick(source: object, names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names.split()}


def _quantiles(histogram: Histogram) -> dict[str, float | int | None]:
    return {"count": histogram.count, "p50": histogram.quantile(0.5), "p99": histogram.quantile(0.99)}
