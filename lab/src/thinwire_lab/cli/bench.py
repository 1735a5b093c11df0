"""`thinwire bench AREA`: the benchmarks of an area, one row for each required result, compared with reference methods.

`thinwire bench edge` measures an edge host under load. Its runs can be stored, to train latency models on them.
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
from thinwire_lab.bench import AREAS, find_benchmarks
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting, format_value, run_benchmark
from thinwire_lab.bench.machine import this_machine
from thinwire_lab.live.edge.load_harness import LoadPlan, configurations, measure, scaled
from thinwire_lab.placement.queue_simulator import Arrivals
from thinwire_lab.placement.run_files import write_runs
from thinwire_lab.reproduce.placement.placement_figures import RUN_COLUMNS, run_rows

FIGURE = "1c"
TIME_STRETCH = 5.0
"""factor by which time is stretched, so that the overhead of the scheduler counts less"""


def bench_edge(output: Output, figure: str, plan: LoadPlan, quick: bool, out: Path | None, arrivals: Arrivals) -> None:
    """Measure parts of figure 1, and store the runs in `out`."""
    host = Host("bench", cores=1, contention=0.0) if plan.burning else Host("bench", cores=4)
    parts = [configuration for part in figure.split(",") for configuration in configurations(part.strip(), host)]
    wanted = [replace(scaled(part, TIME_STRETCH), arrivals=arrivals) for part in parts]
    if quick:
        wanted, plan = wanted[:2], replace(plan, seconds=5.0, repeats=1)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"figure {figure}", total=1.0)
        runs = asyncio.run(measure(wanted, plan, lambda share: progress.update(task, completed=share)))
    how = f"figure {figure}, {'a processor used' if plan.burning else 'emulated cores'}"
    how += f", time stretched {TIME_STRETCH:g} times, {arrivals} arrivals"
    if out is not None:
        write_runs(out, runs, WallClock(), how)
    output.table(f"figure {figure}, measured: p90 of the first topic", RUN_COLUMNS, run_rows(runs))
    output.note(f"{how}; {sum(bool(run.disturbed) for run in runs)} of {len(runs)} runs were disturbed and left out.")
    output.document({"figure": figure, "how": how, "columns": RUN_COLUMNS, "rows": run_rows(runs), "runs": len(runs)})


SHARED_DATA = Path("../shared/data")
COLUMNS = ("what", "value", "unit", "required", "holds", "how measured")

_HOLDS = {True: "yes", False: "NO", None: "-"}

EDGE = "edge"
"""the area that measures an edge host under load and can store the runs"""

AreaArgument = Annotated[str, typer.Argument(help=f"The area: {', '.join(sorted([*AREAS, EDGE]))}.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="Small sizes, to check that everything works.")]
DataOption = Annotated[
    Path | None, typer.Option("--data", help=f"Folder of the recordings; {SHARED_DATA} if it exists.")
]
OnlyOption = Annotated[str, typer.Option("--only", help="Only benchmarks with this text in their name or tags.")]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")]
FigureOption = Annotated[
    str, typer.Option("--figure", help="edge: parts of figure 1, separated by commas: 1a to 1d, 1p.")
]
TimedOption = Annotated[bool, typer.Option("--timed", help="edge: emulated cores instead of a busy processor.")]
PeriodicOption = Annotated[
    bool, typer.Option("--periodic", help="edge: messages at constant intervals instead of random ones.")
]
SecondsOption = Annotated[float, typer.Option("--seconds", help="edge: duration of a run.", min=1, max=3600)]
RepeatsOption = Annotated[int, typer.Option("--repeats", help="edge: runs of each configuration.", min=1, max=100)]
OutOption = Annotated[Path | None, typer.Option("--out", help="edge: store the measured runs in this JSON file.")]


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
    """Measure bytes and time and compare them with reference methods. Exit with 1 if a required result is missed."""
    output = Output(json)
    if area == EDGE:
        plan = LoadPlan(seconds, repeats, burning=not timed)
        bench_edge(output, figure, plan, quick, out, "periodic" if periodic else "poisson")
        return
    rows = _measure(_choose(area, only), Setting(quick, _folder(data)))
    _show(output, area, rows, markdown)
    output.document({"area": area, "machine": this_machine(), "quick": quick, "rows": [_document(r) for r in rows]})
    if any(row.holds is False for row in rows):
        raise typer.Exit(1)


def as_markdown(rows: Iterable[Row]) -> str:
    """Return the table as in lab/docs/benchmarks.md.

    >>> print(as_markdown([Row("exact: frames to JSON", "part", 0.05, high=0.1, how="10 events")]))
    | what | value | unit | required | holds | how measured |
    |---|---|---|---|---|---|
    | exact: frames to JSON | 1/20 | part | at most 1/10 | yes | 10 events |
    """
    return _markdown(COLUMNS, map(_cells, rows))


def side_by_side(rows: Iterable[Row]) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return the columns and lines of a table that compares rows with other methods.

    >>> side_by_side([Row("logs", "bytes", 20.0, by_method={"ours": 20.0, "deflate": 90.0}), Row("pack", "times", 0.2)])
    (('what', 'ours', 'deflate'), [('logs', 20.0, 90.0)])
    """
    compared = [row for row in rows if row.by_method]
    methods = list(dict.fromkeys(name for row in compared for name in row.by_method))
    return ("what", *methods), [(row.name, *map(row.by_method.get, methods)) for row in compared]


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    head, rule, *body = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, rule.replace(" ", ""), *body])


def _choose(area: str, only: str) -> list[Benchmark]:
    benchmarks = find_benchmarks(area)
    chosen = [benchmark for benchmark in benchmarks if benchmark.matches(only)]
    if not chosen:
        names = [benchmark.name for benchmark in benchmarks]
        raise ConfigError("no benchmark has this text in its name or tags", only=only, choose_from=names)
    return chosen


def _folder(data: Path | None) -> Path | None:
    if data is None:
        return SHARED_DATA if SHARED_DATA.is_dir() else None
    if not data.is_dir():
        raise ConfigError("not a folder", data=str(data))
    return data


def _measure(chosen: list[Benchmark], setting: Setting) -> list[Row]:
    rows: list[Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for benchmark in chosen:
            task = progress.add_task(benchmark.name, total=1.0)
            rows += run_benchmark(benchmark, replace(setting, progress=_report_to(progress, task)))
            progress.update(task, completed=1.0)
    return rows


def _report_to(progress: Progress, task: TaskID) -> Callable[[float], None]:
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
    unmeasured = sum(row.value is None and not row.invalid for row in rows)
    output.note(
        f"{sum(bool(row.holds) for row in rows)} required results hold, {len(missed)} do not, {unmeasured} not measured"
    )


def _print(output: Output, text: str) -> None:
    output.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _cells(row: Row) -> tuple[str, ...]:
    value = "-" if row.value is None else format_value(row.value, row.unit)
    how = "; ".join(part for part in (row.remarks, row.how) if part)
    return row.name, value, row.unit, row.required or "-", _HOLDS[row.holds], how


def _document(row: Row) -> dict[str, Any]:
    names = ("name", "value", "unit", "low", "high", "required", "holds", "how")
    return {**{name: getattr(row, name) for name in names}, "note": row.remarks, "beside": row.by_method}
