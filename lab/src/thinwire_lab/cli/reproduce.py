"""`thinwire reproduce [NAME]`: reproduce published tables and figures, with the published values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption
from thinwire.errors import ConfigError
from thinwire_lab.cli.pictures import draw_pictures
from thinwire_lab.cli.reproduce_texts import FULL, TEXTS, ReproduceOptions, ReproduceText, list_texts
from thinwire_lab.reproduce import figure_plots as plots
from thinwire_lab.reproduce.experiment import Experiment, find
from thinwire_lab.reproduce.virtual_events import virtual_event_figures as experiment

QUICK = 20_000
QUICK_RUNS, RUNS = 2, 10

NameArgument = Annotated[str, typer.Argument(help="The text to reproduce; see --list.")]
ListOption = Annotated[bool, typer.Option("--list", help="List all tables and figures.")]
FigureOption = Annotated[str | None, typer.Option("--figure", help="Only this figure, such as 5 or 5.2.1.")]
TableOption = Annotated[str | None, typer.Option("--table", help="Only this table, such as 5.4.4.")]
EventsOption = Annotated[int | None, typer.Option("--events", help=f"Number of events; default: {FULL:,}.", min=2)]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Few events, streams and settings, to check that everything works.")
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of recordings, or of a summary (workload); default: generated.",
        exists=True,
        file_okay=False,
    ),
]
RunsOption = Annotated[int | None, typer.Option("--runs", help=f"Runs of figure 7; default: {RUNS}.", min=1)]
NodesOption = Annotated[
    int | None, typer.Option("--nodes", help="conformance: largest network; default: 1,600.", min=100)
]
SubscriptionsOption = Annotated[
    int | None,
    typer.Option("--subscriptions", help="conformance: subscriptions of all sources; default: 6,000.", min=30),
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the pictures.")]


class FigureScale(NamedTuple):
    """Events of figures 5 and 6, runs of figure 7. Few events also make the runs short."""

    events: int
    runs: int


def reproduce(
    name: NameArgument = "virtual-events",
    listing: ListOption = False,
    figure: FigureOption = None,
    table: TableOption = None,
    events: EventsOption = None,
    quick: QuickOption = False,
    runs: RunsOption = None,
    data: DataOption = None,
    nodes: NodesOption = None,
    subscriptions: SubscriptionsOption = None,
    out: OutOption = Path("runs/reproduce"),
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Reproduce published tables and figures. Each has the published values and ours.

    The cells of `dictionaries`, `conformance` and `placement` run on Spark
    if it is available, otherwise one after the other in this process.

    \b
    thinwire reproduce virtual-events --figure 5
    thinwire reproduce dictionaries --table 5.4.4 --data streams
    thinwire reproduce conformance --figure 4.7 --nodes 1600
    thinwire reproduce workload --figure 4
    """
    output = Output(json)
    if listing:
        list_texts(output)
        return
    options = ReproduceOptions(table, figure, events, quick, runs, data, nodes, subscriptions, out, master)
    reproduce_text: ReproduceText = TEXTS.get(name, partial(_virtual_events, name))
    output.document(reproduce_text(output, options))


def _virtual_events(name: str, output: Output, options: ReproduceOptions) -> dict[str, Any]:
    chosen = find(name)
    options.refuse_tables(sorted(chosen.figures))
    numbers = _figure_numbers(chosen, options.figure)
    events = options.events or (QUICK if options.quick else FULL)
    scale = FigureScale(events, options.runs or (QUICK_RUNS if options.quick else RUNS))
    output.note(chosen.paper)
    document: dict[str, Any] = {"experiment": name, "paper": chosen.paper, **scale._asdict()}
    for number in numbers:
        document[f"figure {number}"] = _FIGURES[number](output, chosen, scale, options.out)
    return document


def _figure_numbers(chosen: Experiment, figure: str | None) -> list[int]:
    if figure is None:
        return sorted(chosen.figures)
    if figure not in map(str, chosen.figures):
        raise ConfigError("no such figure", figure=figure, choose_from=sorted(chosen.figures))
    return [int(figure)]


def _figure_5(output: Output, chosen: Experiment, scale: FigureScale, out: Path) -> Any:
    events = scale.events
    sizes = _show_progress("figure 5", lambda progress: experiment.figure_5(events, progress=progress))
    columns = ("format", "published MB", "ours, MB a million events", "difference", "measured MB")
    rows = [
        (name, experiment.PUBLISHED[name], size, f"{100 * (size / experiment.PUBLISHED[name] - 1):+.1f} %",
         size * events / 1e6)
        for name, size in sizes.items()
    ]  # fmt: skip
    output.table(f"figure 5: {chosen.figures[5]} ({events:,} events)", columns, rows)
    pictures = draw_pictures(output, plots.figure_5, sizes, out)
    return {"rows": [dict(zip(columns, row, strict=True)) for row in rows], "pictures": pictures}


def _figure_6(output: Output, chosen: Experiment, scale: FigureScale, out: Path) -> Any:
    events = scale.events
    stages = _show_progress("figure 6", lambda progress: experiment.figure_6(events, progress=progress))
    columns = ("format", *experiment.STAGES, "first hop to raw", "second hop to raw")
    rows = [(s.format, *s.per_event, *(f"1/{s.totals[0] / hop:.1f}" for hop in s.totals[1:3])) for s in stages]
    output.table(f"figure 6: {chosen.figures[6]} (MB a million events, {events:,} events)", columns, rows)
    plain = stages[0]
    holds = plain.totals[1] < plain.totals[0] / 10
    ratio = f"1/{plain.totals[0] / plain.totals[1]:.1f}"
    output.note(f"published: {experiment.STATEMENT}; here it {'holds' if holds else 'does NOT hold'}: {ratio}.")
    output.note("checked on every event: the broker's copy equals the raw event, the subscriber's is within 1.0.")
    live, table = _figure_6_live(output, events)
    pictures = draw_pictures(output, plots.figure_6, [*stages, *live], out)
    document = {"published": experiment.STATEMENT, "holds": holds, "pictures": pictures}
    return {"rows": [dict(zip(columns, row, strict=True)) for row in rows], "live rows": table, **document}


def _figure_6_live(output: Output, events: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """Measure figure 6 in the running system, for the formats that it has."""
    if find_spec("nats") is None:
        output.note("not measured in the running system: the extra nats is not installed.")
        return [], []
    from thinwire_lab.reproduce.virtual_events import live_figures as running

    live = _show_progress("figure 6, live", lambda progress: running.figure_6_live(events, progress=progress))
    stored = ("log stored", "channel stored")
    columns = ("format", *experiment.STAGES, *stored, "first hop to raw", "second hop to raw")
    rows = [
        (s.format, *s.per_event, *s.stored_per_event, *(f"1/{s.totals[0] / hop:.1f}" for hop in s.totals[1:3]))
        for s in live
    ]
    title = "figure 6 live: the messages of log and channel, embedded broker with registry and translator"
    output.table(f"{title} (MB a million events, {live[0].events:,} events)", columns, rows)
    output.note("format and predictor are those of the log: channels are compact and choose their predictors.")
    output.note("gzip and Avro are not formats of the system: they are measured without a broker only.")
    return live, [dict(zip(columns, row, strict=True)) for row in rows]


def _figure_7(output: Output, chosen: Experiment, scale: FigureScale, out: Path) -> Any:
    seconds = experiment.seconds_for(scale.events)
    chains = _show_progress("figure 7", lambda progress: experiment.figure_7(scale.runs, seconds, progress=progress))
    columns = ("chain", "process", "cores", "spread", "memory MB", "spread MB")
    rows = [(experiment.KINDS[c.kind], role, *point) for c in chains for role, point in c.by_role.items()]
    title = f"figure 7: {chosen.figures[7]} ({scale.runs} runs of {seconds:g} s, {experiment.RATE:g} events/s)"
    output.table(title, columns, rows)
    stored = {experiment.KINDS[c.kind]: c.stored[0] for c in chains}
    sizes = ", ".join(f"{name} {size:.1f}" for name, size in stored.items())
    output.note(f"bytes stored at the broker, an event: {sizes}.")
    lost = sum(run.lost for c in chains for run in c.runs)
    output.note(f"events lost: {lost}.")
    pictures = draw_pictures(output, plots.figure_7, chains, out)
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    return {"rows": table, "stored bytes an event": stored, "events lost": lost, "pictures": pictures}


_FIGURES: dict[int, Callable[[Output, Experiment, FigureScale, Path], Any]] = {5: _figure_5, 6: _figure_6, 7: _figure_7}


def _show_progress(what: str, work: Callable[[experiment.Progress], Any]) -> Any:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        return work(lambda share: progress.update(task, completed=share))
