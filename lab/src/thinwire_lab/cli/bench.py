"""`thinwire bench AREA`: one row a bar, ours beside the usual methods, each with how it was measured.

`thinwire bench edge`: a host under load, measured; the runs can be kept to fit models and the simulator to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from thinwire.cli.output import JsonOption, Output, format_cell
from thinwire.clock import WallClock
from thinwire.errors import ConfigError
from thinwire.placement import Host
from thinwire_lab.bench import AREAS, bars
from thinwire_lab.bench.benchmark import Bar, Row, Setting, run, shown
from thinwire_lab.bench.machine import this_machine
from thinwire_lab.live.edge.load_harness import Measuring, configurations, measure, scaled
from thinwire_lab.placement.queue_simulator import Arrivals
from thinwire_lab.placement.run_files import write_runs
from thinwire_lab.reproduce.placement.placement_figures import RUN_COLUMNS, run_rows

FIGURE = "1c"
SCALE = 5.0
"""by how much time is stretched, so that what the scheduler does weighs little"""


def bench_edge(
    output: Output,
    figure: str,
    measuring: Measuring,
    quick: bool,
    out: Path | None,
    arrivals: Arrivals = "poisson",
) -> None:
    """Measure parts of figure 1, and keep the runs where a file is named."""
    burning = measuring.burning
    host = Host("bench", cores=1, contention=0.0) if burning else Host("bench", cores=4)
    parts = [one for part in figure.split(",") for one in configurations(part.strip(), host)]
    wanted = [replace(scaled(one, SCALE), arrivals=arrivals) for one in parts]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"figure {figure}", total=1.0)
        some, how_long = (wanted[:2], replace(measuring, seconds=5.0, repeats=1)) if quick else (wanted, measuring)
        runs = asyncio.run(measure(some, how_long, lambda share: progress.update(task, completed=share)))
    how = f"figure {figure}, {'a processor burnt' if burning else 'cores by timer'}, time stretched {SCALE:g} times, "
    how += f"{arrivals} arrivals"
    if out is not None:
        write_runs(out, runs, WallClock(), how)
    output.table(f"figure {figure}, measured: p90 of the first topic", RUN_COLUMNS, run_rows(runs))
    output.note(f"{how}; {sum(bool(run.disturbed) for run in runs)} of {len(runs)} runs were disturbed and left out.")
    output.document({"figure": figure, "how": how, "columns": RUN_COLUMNS, "rows": run_rows(runs), "runs": len(runs)})


SHARED_DATA = Path("../shared/data")
COLUMNS = ("what", "value", "unit", "bar", "holds", "how measured")

_HOLDS = {True: "yes", False: "NO", None: "-"}

EDGE = "edge"
"""an area of its own: it measures a host under load and can keep the runs"""

AreaArgument = Annotated[str, typer.Argument(help=f"What to measure: {', '.join(sorted([*AREAS, EDGE]))}.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="Small sizes: does everything work?")]
DataOption = Annotated[
    Path | None, typer.Option("--data", help=f"Folder of the real recordings; {SHARED_DATA} where that exists.")
]
OnlyOption = Annotated[str, typer.Option("--only", help="Only bars with this in their name.")]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")]
FigureOption = Annotated[str, typer.Option("--figure", help="edge: parts of figure 1: 1a to 1d, 1p; with commas.")]
TimedOption = Annotated[bool, typer.Option("--timed", help="edge: cores by timer instead of burning a processor.")]
PeriodicOption = Annotated[bool, typer.Option("--periodic", help="edge: messages at a constant pace, not at random.")]
SecondsOption = Annotated[float, typer.Option("--seconds", help="edge: how long a run is.", min=1, max=3600)]
RepeatsOption = Annotated[int, typer.Option("--repeats", help="edge: runs of every configuration.", min=1, max=100)]
OutOption = Annotated[Path | None, typer.Option("--out", help="edge: keep the measured runs in this file (JSON).")]


def bench(
    area: AreaArgument,
    quick: QuickOption = False,
    data: DataOption = None,
    only: OnlyOption = "",
    markdown: MarkdownOption = False,
    figure: FigureOption = FIGURE,
    timed: TimedOption = False,
    periodic: PeriodicOption = False,
    seconds: SecondsOption = 20.0,
    repeats: RepeatsOption = 5,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Measure bytes and time, ours beside the usual methods; leaves with 1 if a bar does not hold."""
    output = Output(json)
    if area == EDGE:
        measuring = Measuring(seconds, repeats, burning=not timed)
        bench_edge(output, figure, measuring, quick, out, "periodic" if periodic else "poisson")
        return
    rows = _measure(_chosen(area, only), Setting(quick, _folder(data)))
    _show(output, area, rows, markdown)
    output.document({"area": area, "machine": this_machine(), "quick": quick, "rows": [_document(r) for r in rows]})
    if any(row.holds is False for row in rows):
        raise typer.Exit(1)


def as_markdown(rows: Iterable[Row]) -> str:
    """The table as it stands in lab/docs/benchmarks.md.

    >>> print(as_markdown([Row("exact: frames to JSON", "part", 0.05, high=0.1, how="10 events")]))
    | what | value | unit | bar | holds | how measured |
    |---|---|---|---|---|---|
    | exact: frames to JSON | 1/20 | part | at most 1/10 | yes | 10 events |
    """
    return _markdown(COLUMNS, map(_cells, rows))


def side_by_side(rows: Iterable[Row]) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """A row's figure beside those of other methods: the columns, and a line for every row that has such.

    >>> side_by_side([Row("logs", "bytes", 20.0, beside={"ours": 20.0, "deflate": 90.0}), Row("pack", "times", 0.2)])
    (('what', 'ours', 'deflate'), [('logs', 20.0, 90.0)])
    """
    compared = [row for row in rows if row.beside]
    methods = list(dict.fromkeys(name for row in compared for name in row.beside))
    return ("what", *methods), [(row.name, *map(row.beside.get, methods)) for row in compared]


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    head, rule, *body = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, rule.replace(" ", ""), *body])


def _chosen(area: str, only: str) -> list[Bar]:
    every = bars(area)
    chosen = [bar for bar in every if only in bar.name]
    if not chosen:
        raise ConfigError("no bar has this in its name", only=only, choose_from=[bar.name for bar in every])
    return chosen


def _folder(data: Path | None) -> Path | None:
    if data is None:
        return SHARED_DATA if SHARED_DATA.is_dir() else None
    if not data.is_dir():
        raise ConfigError("not a folder", data=str(data))
    return data


def _measure(chosen: list[Bar], setting: Setting) -> list[Row]:
    rows: list[Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for bar in chosen:
            task = progress.add_task(bar.name, total=1.0)
            rows += run(bar, replace(setting, progress=_teller(progress, task)))
            progress.update(task, completed=1.0)
    return rows


def _teller(progress: Progress, task: TaskID) -> Callable[[float], None]:
    return lambda share: progress.update(task, completed=share)


def _show(output: Output, area: str, rows: list[Row], markdown: bool) -> None:
    output.note(f"machine: {this_machine()}")
    methods, compared = side_by_side(rows)
    if markdown:
        _print(output, as_markdown(rows))
        if compared:
            _print(output, "\n" + _markdown(methods, [tuple(map(format_cell, line)) for line in compared]))
    else:
        output.table(f"bench {area}", COLUMNS, map(_cells, rows))
        if compared:
            output.table(f"bench {area}, side by side", methods, compared)
    missed = [row.name for row in rows if row.holds is False]
    unmeasured = sum(row.value is None and row.sound for row in rows)
    output.note(f"{sum(bool(row.holds) for row in rows)} bars hold, {len(missed)} do not, {unmeasured} not measured")


def _print(output: Output, text: str) -> None:
    output.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _cells(row: Row) -> tuple[str, ...]:
    value = "-" if row.value is None else shown(row.value, row.unit)
    how = "; ".join(part for part in (row.note, row.how) if part)
    return row.name, value, row.unit, row.bar or "-", _HOLDS[row.holds], how


def _document(row: Row) -> dict[str, Any]:
    names = ("name", "value", "unit", "low", "high", "bar", "holds", "how", "note", "beside")
    return {name: getattr(row, name) for name in names}
