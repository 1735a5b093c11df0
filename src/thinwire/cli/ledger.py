"""`thinwire ledger`: what a run wrote into its ledger."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.analysis.ledger_files import read
from thinwire.cli.output import JsonOption, Output
from thinwire.ledger import Row, merge, to_document

ledger = typer.Typer(add_completion=False, no_args_is_help=True)


class Grouping(StrEnum):
    """What rows are added up by."""

    TOPIC = "topic"
    LINK = "link"
    CLASS = "class"


_File = Annotated[Path, typer.Argument(help="A ledger: JSON Lines, one row a line.")]
_By = Annotated[Grouping | None, typer.Option("--by", help="Add up the rows of a run and role by this.")]
_PLACES = ("run", "topic", "link", "class", "role")


@ledger.callback()
def _ledger() -> None:
    """What a run wrote into its ledger."""


@ledger.command()
def show(file: _File, by: _By = None, json: JsonOption = False) -> None:
    """Print a ledger: bytes on both planes, errors against the promise, latencies."""
    output = Output(json)
    rows = list(read(file))
    rows = grouped(rows, by) if by else rows
    columns = ["run", by.value, "role"] if by else list(_PLACES)
    lines = [{name: _place(row, name) for name in columns} | figures(row) for row in rows]
    if lines:
        output.table(str(file), list(lines[0]), [list(line.values()) for line in lines])
    else:
        output.note(f"{file} has no rows")
    output.document({"file": str(file), "by": by, "rows": [to_document(row) | derived(row) for row in rows]})


def grouped(rows: Iterable[Row], by: Grouping) -> list[Row]:
    """One row for each run, role and value of `by`.

    Runs and roles stay apart: one run is the baseline of another, and sender and receiver count the same message.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.run, _place(row, by), row.role), []).append(row)
    return [merge(group) for group in groups.values()]


def figures(row: Row) -> dict[str, Any]:
    """The columns a reader looks for first."""
    return {
        "events": row.events,
        "raw B": row.raw_bytes,
        "frame B": row.frame_bytes,
        "link B": row.link_bytes,
        "saved": _percent(row.saved),
        "max error": _of_promise(row),
        "sent p50/p99 ms": _spread(row, "latency_sent"),
        "virtual p50/p99 ms": _spread(row, "latency_virtual"),
    }


def derived(row: Row) -> dict[str, Any]:
    """What a row only implies, for those who read the JSON document."""
    return {
        "frame_bytes": row.frame_bytes,
        "saved": row.saved,
        "bytes_per_event": row.bytes_per_event,
        "broken": row.broken,
        "error_max": row.error_max,
        "error_p99": row.error_p99,
        "sent_p50": row.latency_sent.quantile(0.5),
        "sent_p99": row.latency_sent.quantile(0.99),
        "virtual_p50": row.latency_virtual.quantile(0.5),
        "virtual_p99": row.latency_virtual.quantile(0.99),
    }


def _place(row: Row, name: str) -> str:
    return str(getattr(row, "class_" if name == "class" else name))


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"


def _of_promise(row: Row) -> str | None:
    """The worst error in percent of its bound, and how many values were beyond theirs."""
    if row.error_max is None:
        return None
    return f"{row.error_max:.0%}" + (f", {row.broken:,} BROKEN" if row.broken else "")


def _spread(row: Row, name: str) -> str | None:
    spread = getattr(row, name)
    if not spread.count:
        return None
    return f"{_milliseconds(spread.quantile(0.5))} / {_milliseconds(spread.quantile(0.99))}"


def _milliseconds(seconds: float) -> str:
    """Three digits that matter, without an exponent.

    >>> _milliseconds(0.00512), _milliseconds(61.5)
    ('5.12', '61,500')
    """
    value = seconds * 1000
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
