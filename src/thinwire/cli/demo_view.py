"""Tables, lines and the JSON document of `thinwire demo`. Tables are at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from thinwire.cli.output import format_cell
from thinwire.demo.demo_run import DemoView, SubscriberView
from thinwire.demo.spark_table import ParquetView
from thinwire.ledger import Histogram, Row


def scaled(count: int, unit: float) -> str:
    """Format a count in a unit, with three significant digits.

    >>> scaled(7_902_311, 1e6), scaled(61_004, 1e6), scaled(56_912, 1e3), scaled(1_204_912, 1e3)
    ('7.9', '0.06', '56.9', '1,205')
    """
    units = count / unit
    return f"{units:,.0f}" if units >= 100 else f"{units:.{1 if units >= 1 else 2}f}"


def percent(share: float | None) -> str:
    """Format a share in percent, without the sign.

    >>> percent(0.99254), percent(1.0), percent(None)
    ('99.25', '100', '-')
    """
    return "-" if share is None else f"{100 * share:.4g}"


def _latency(histogram: Histogram) -> str:
    median, high = histogram.quantile(0.5), histogram.quantile(0.99)
    return "-" if median is None or high is None else f"{1e3 * median:.0f}/{1e3 * high:.0f}"


def _largest_error(view: SubscriberView) -> str:
    if view.check.is_guarantee_met:
        return f"{view.row.error_max or 0:.4g}"
    return "BROKEN" if view.check.violations else "LOST"


def _of_channel(cell: Callable[[Row], str]) -> Callable[[SubscriberView], str]:
    """Return a cell of the channel of a demand class; "-" without a channel."""
    return lambda view: cell(view.channel) if view.channel.frames else "-"


_SUBSCRIBER_COLUMNS: dict[str, Callable[[SubscriberView], str]] = {
    "tolerance": lambda view: view.subscription.name,
    "reads": lambda view: view.row.link,
    "events": lambda view: format_cell(view.row.events),
    "raw\nJSON\nMB": lambda view: scaled(view.row.raw_bytes, 1e6),
    "frames\n\nkB": lambda view: scaled(view.row.frame_bytes, 1e3),
    "saved\n\n%": lambda view: percent(view.row.saved),
    "link,\nJSON\nMB": lambda view: scaled(view.json_link_bytes, 1e6),
    "link,\nours\nMB": lambda view: scaled(view.link_bytes, 1e6),
    "max.\nerror/\ntoler.": _largest_error,
    "sent\np50/99\nms": lambda view: _latency(view.row.latency_sent),
    "virtual\np50/99\nms": lambda view: _latency(view.row.latency_virtual),
}
_CHANNEL_COLUMNS: dict[str, Callable[[SubscriberView], str]] = {
    "translator:\ntolerance": lambda view: view.subscription.name,
    "events\nin": _of_channel(lambda row: format_cell(row.events)),
    "frames\nout": _of_channel(lambda row: format_cell(row.frames)),
    "bytes/\nevent": _of_channel(lambda row: f"{row.bytes_per_event or 0:.2f}"),
    "channel\nkB": _of_channel(lambda row: scaled(row.frame_bytes, 1e3)),
    "log\nkB": lambda view: scaled(view.log_bytes, 1e3),
    "saved vs\nlog, %": lambda view: percent(view.saved_of_log),
    "link\nMB": lambda view: scaled(view.row.link_bytes, 1e6),
}
_PARQUET_COLUMNS: dict[str, Callable[[ParquetView], str]] = {
    "Spark:\ntolerance": lambda view: view.row.class_,
    "rows in\ntable": lambda view: format_cell(view.rows),
    "events\npublished": lambda view: format_cell(view.published),
    "read\nMB": lambda view: scaled(view.bytes_read, 1e6),
    "Parquet\nMB": lambda view: scaled(view.row.stored_bytes, 1e6),
    "first rows\nafter, s": lambda view: format_cell(view.first_rows_after),
    "all rows\nafter, s": lambda view: format_cell(view.all_rows_after),
}


def tables(view: DemoView, seconds: float) -> Group:
    """Return the tables of subscribers, channels and, with Spark, the Parquet table."""
    joined = [subscriber for subscriber in view.subscribers if subscriber.has_joined]
    subscribers = _table(_SUBSCRIBER_COLUMNS, joined)
    subscribers.title = f"thinwire demo: {view.elapsed:.0f} of {seconds:g} s, {view.events:,} events published"
    for waiting in view.subscribers[len(joined) :]:
        subscribers.add_row(waiting.subscription.name, f"at {waiting.joins_at:.0f} s")
    parts: list[Table | str] = [subscribers, "", _table(_CHANNEL_COLUMNS, joined), *_captions(view)]
    if view.parquet is not None:
        parts += ["", _table(_PARQUET_COLUMNS, [view.parquet])]
    return Group(*parts)


def _table(columns: Mapping[str, Callable[[Any], str]], views: Iterable[Any]) -> Table:
    table = Table(title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for index, heading in enumerate(columns):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    for view in views:
        table.add_row(*(cell(view) for cell in columns.values()))
    return table


def _captions(view: DemoView) -> list[str]:
    lines = []
    if view.phases and (row := view.phases[-1]).events:
        cost = f"{row.bytes_per_event or 0:.2f} bytes per event"
        lines.append(f"log: tolerance {row.class_}, {cost}, {percent(row.saved)} % saved")
    if view.translator_cpu is not None:
        cpu = f"{1e6 * view.translator_cpu:.0f} us of CPU per event"
        lines.append(f"translator: {view.translator.events:,} events read, {cpu} for all channels")
    if view.parquet is not None and view.parquet.first_rows_after is None:
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
    if view.parquet is not None:
        parts.append(f"Spark: {view.parquet.rows:,} rows")
    return "; ".join(parts)


def summary(view: DemoView, *, with_spark: bool) -> list[str]:
    """Return the result as lines of text."""
    lines = [""]
    if view.parquet is not None:
        lines.append(_describe_table(view.parquet))
    elif with_spark:
        lines.append("Spark was stopped before the first rows; there is no table")
    violated = [subscriber for subscriber in view.subscribers if not subscriber.check.is_guarantee_met]
    for subscriber in violated:
        check = subscriber.check
        problems = f"{check.violations:,} events violate their bound, {check.lost:,} were lost"
        lines.append(f"subscriber {subscriber.subscription.name}: {problems}; {check.first_violation}")
    if not violated:
        checked = sum(subscriber.check.checked for subscriber in view.subscribers)
        early = sum(subscriber.check.early for subscriber in view.subscribers)
        lines.append(f"{checked:,} events checked: all within their bound, none lost")
        lines.append(f"{early:,} of them had a larger bound, from before the publishers applied a new tolerance")
    stored = (f"{scaled(row.stored_bytes, 1e3)} kB in {row.messages:,} messages ({row.link})" for row in view.stored)
    return [*lines, f"stored by the broker: {', '.join(stored)}"]


def _describe_table(parquet: ParquetView) -> str:
    if parquet.problem:
        return f"Spark: {parquet.problem}"
    if parquet.is_complete:
        return f"Spark: the table has all {parquet.rows:,} published events, each once"
    return (
        f"Spark: THE TABLE IS WRONG: {parquet.rows:,} rows with {parquet.events:,} different events, "
        f"{parquet.published:,} events were published"
    )


def facts(view: DemoView) -> dict[str, Any]:
    """Return the JSON document."""
    phase = "events suppressed_events raw_bytes frame_bytes bytes_per_event saved link_bytes"
    return {
        "seconds": view.elapsed,
        "events": view.events,
        "kept": view.is_guarantee_met,
        "stored": [_pick(row, "link messages stored_bytes") for row in view.stored],
        "subscribers": [_subscriber_facts(subscriber) for subscriber in view.subscribers],
        "translator": {
            "events": view.translator.events,
            "cpu_seconds": sum(view.translator.cpu_seconds.values()),
            "cpu_seconds_per_event": view.translator_cpu,
            "link_bytes": view.translator.link_bytes,
            "classes": [_channel_facts(subscriber) for subscriber in view.subscribers if subscriber.has_joined],
        },
        "phases": [{"in_force": row.class_, **_pick(row, phase)} for row in view.phases],
        "spark": None if view.parquet is None else _parquet_facts(view.parquet),
    }


def _subscriber_facts(view: SubscriberView) -> dict[str, Any]:
    return {
        "class": view.subscription.name,
        **view.subscription.request,
        **_pick(view, "json_link_bytes link_bytes"),
        **_pick(view.check, "checked lost early first_violation"),
        **_pick(view.row, "events raw_bytes frame_bytes saved"),
        "joined": view.has_joined,
        "broken": view.check.violations,
        "kept": view.check.is_guarantee_met,
        "reads": view.row.link,
        "virtual_events": view.row.suppressed_events,
        "worst_error": view.row.error_max,
        "latency_sent": _quantiles(view.row.latency_sent),
        "latency_virtual": _quantiles(view.row.latency_virtual),
    }


def _channel_facts(view: SubscriberView) -> dict[str, Any]:
    return {
        "class": view.subscription.name,
        "reads": view.row.link,
        "less": view.saved_of_log,
        "log_bytes": view.log_bytes,
        "link_bytes": view.row.link_bytes,
        **_pick(view.channel, "events frames frame_bytes bytes_per_event"),
    }


def _parquet_facts(view: ParquetView) -> dict[str, Any]:
    return {
        "class": view.row.class_,
        "complete": view.is_complete,
        "first": view.first_rows_after,
        "seconds": view.all_rows_after,
        **_pick(view, "rows published bytes_read problem"),
        **_pick(view.row, "link_bytes stored_bytes"),
    }


def _pick(view: object, names: str) -> dict[str, Any]:
    return {name: getattr(view, name) for name in names.split()}


def _quantiles(histogram: Histogram) -> dict[str, float | int | None]:
    return {"count": histogram.count, "p50": histogram.quantile(0.5), "p99": histogram.quantile(0.99)}
