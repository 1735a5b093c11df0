"""`thinwire ledger show`: print the ledger of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from thinwire.analysis.ledger_files import read
from thinwire.cli.option_groups import with_options
from thinwire.cli.output import Output
from thinwire.ledger import Histogram, Row, merge, to_document

ledger = typer.Typer(add_completion=False, no_args_is_help=True)


Grouping = Literal["topic", "link", "class"]
FileArgument = Annotated[Path, typer.Argument(help="Ledger file, one JSON row per line.")]
GroupingOption = Annotated[Grouping | None, typer.Option("--by", help="Sum the rows of a run and role by this column.")]
_KEYS = ("run", "topic", "link", "class", "role")
_DERIVED = ("frame_bytes", "saved", "bytes_per_event", "broken", "error_max", "error_p99")


@ledger.callback()
def _ledger() -> None:
    """Show the ledger of a run."""


@ledger.command()
@with_options
def show(file: FileArgument, by: GroupingOption = None, *, output: Output) -> None:
    """Print a ledger: frame and link bytes, errors relative to their bounds, latencies."""
    rows = list(read(file))
    rows = group_rows(rows, by) if by else rows
    columns = ["run", by, "role"] if by else list(_KEYS)
    lines = [{name: _key(row, name) for name in columns} | figures(row) for row in rows]
    if lines:
        output.records(str(file), list(lines[0]), lines)
    else:
        output.note(f"{file} has no rows")
    output.document({"file": str(file), "by": by, "rows": [to_document(row) | derived(row) for row in rows]})


def group_rows(rows: Iterable[Row], by: Grouping) -> list[Row]:
    """Return one row per run, role and value of `by`.

    Rows of different runs and roles are not summed: runs are compared, and both ends count the same message.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.run, _key(row, by), row.role), []).append(row)
    return [merge(group) for group in groups.values()]


def figures(row: Row) -> dict[str, Any]:
    """Return the columns of the table."""
    return {
        "events": row.events,
        "raw B": row.raw_bytes,
        "frame B": row.frame_bytes,
        "link B": row.link_bytes,
        "saved": None if row.saved is None else f"{row.saved:.1%}",
        "max error": _relative_error(row),
        "sent p50/p99 ms": _latency(row.latency_sent),
        "virtual p50/p99 ms": _latency(row.latency_virtual),
    }


def derived(row: Row) -> dict[str, Any]:
    """Return the figures that are computed from a row, for the JSON document."""
    return {
        **{name: getattr(row, name) for name in _DERIVED},
        "sent_p50": row.latency_sent.quantile(0.5),
        "sent_p99": row.latency_sent.quantile(0.99),
        "virtual_p50": row.latency_virtual.quantile(0.5),
        "virtual_p99": row.latency_virtual.quantile(0.99),
    }


def _key(row: Row, name: str) -> str:
    return str(getattr(row, "class_" if name == "class" else name))


def _relative_error(row: Row) -> str | None:
    """Return the largest error in percent of its bound, and the number of values above their bound."""
    if row.error_max is None:
        return None
    return f"{row.error_max:.0%}" + (f", {row.broken:,} BROKEN" if row.broken else "")


def _latency(histogram: Histogram) -> str | None:
    """Return the median and the 99th percentile."""
    median, high = histogram.quantile(0.5), histogram.quantile(0.99)
    return None if median is None or high is None else f"{_milliseconds(median)} / {_milliseconds(high)}"


def _milliseconds(seconds: float) -> str:
    """Format seconds as milliseconds with three significant digits.

    >>> _milliseconds(0.00512), _milliseconds(61.5)
    ('5.12', '61,500')
    """
    value = seconds * 1000
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
