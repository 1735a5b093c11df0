"""`thinwire reproduce [NAME]`: published figures again, theirs beside ours, as tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption
from thinwire.errors import ConfigError
from thinwire_lab.reproduce import EXPERIMENTS, Experiment, find
from thinwire_lab.reproduce.virtual_events import virtual_event_figures as experiment

QUICK, FULL = 20_000, 1_000_000
QUICK_RUNS, RUNS = 2, 10

NameArgument = Annotated[str, typer.Argument(help="What to reproduce; see --list.")]
ListOption = Annotated[bool, typer.Option("--list", help="List what can be reproduced.")]
FigureOption = Annotated[str | None, typer.Option("--figure", help="Only this figure, such as 5 or 5.2.1.")]
TableOption = Annotated[str | None, typer.Option("--table", help="Only this table, such as 5.4.4.")]
EventsOption = Annotated[int | None, typer.Option("--events", help=f"How many events; {FULL:,} by default.", min=2)]
QuickOption = Annotated[bool, typer.Option("--quick", help="Few events, streams and settings: does it work?")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of real streams, or of a summary (workload); else generated.",
        exists=True,
        file_okay=False,
    ),
]
RunsOption = Annotated[
    int | None, typer.Option("--runs", help=f"How often figure 7 is measured; {RUNS} times by default.", min=1)
]
NodesOption = Annotated[
    int | None, typer.Option("--nodes", help="The largest network of `conformance`; 1,600.", min=100)
]
SubscriptionsOption = Annotated[
    int | None, typer.Option("--subscriptions", help="Of all sources of `conformance`; 6,000.", min=30)
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the pictures.")]


class FigureScale(NamedTuple):
    """How much is measured: events of figures 5 and 6, runs of figure 7; its runs are short where events are few."""

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
    """Every table and figure again, ours beside the published ones.

    The cells of `dictionaries`, `conformance` and `placement` run on
    Spark where it can run, else one after the other in this process.

    \b
    thinwire reproduce virtual-events --figure 5
    thinwire reproduce dictionaries --table 5.4.4 --data streams
    thinwire reproduce conformance --figure 4.7 --nodes 1600
    thinwire reproduce workload --figure 4
    """
    output = Output(json)
    if listing:
        _list(output)
        return
    if name == "dictionaries":
        output.document(_dictionaries(output, table, figure, events, quick, data, out, master))
        return
    if name == "conformance":
        output.document(_conformance(output, table, figure, nodes, subscriptions, data, quick, out, master))
        return
    if name == "workload" and table is None:
        output.document(_workload(output, figure, data, out))
        return
    chosen = find(name)
    if name == "placement":
        from thinwire_lab.cli.reproduce_texts import reproduce_placement

        output.document(reproduce_placement(output, table, figure, quick, data, out / name, master))
        return
    _refuse_tables(table, sorted(chosen.figures))
    numbers = _numbers(chosen, figure)
    scale = FigureScale(events or (QUICK if quick else FULL), runs or (QUICK_RUNS if quick else RUNS))
    output.note(chosen.paper)
    document: dict[str, Any] = {"experiment": name, "paper": chosen.paper, **scale._asdict()}
    for number in numbers:
        document[f"figure {number}"] = _FIGURES[number](output, chosen, scale, out)
    output.document(document)


def _refuse_tables(table: str | None, figures: Iterable[int | str]) -> None:
    if table is not None:
        raise ConfigError("this has figures and no tables", table=table, choose_from=list(figures))


def _numbers(chosen: Experiment, figure: str | None) -> list[int]:
    if figure is None:
        return sorted(chosen.figures)
    if figure not in map(str, chosen.figures):
        raise ConfigError("no such figure", figure=figure, choose_from=sorted(chosen.figures))
    return [int(figure)]


def _dictionaries(
    output: Output,
    table: str | None,
    figure: str | None,
    events: int | None,
    quick: bool,
    data: Path | None,
    out: Path,
    master: str,
) -> dict[str, Any]:
    from thinwire_lab.cli.reproduce_texts import reproduce_sheets
    from thinwire_lab.reproduce.dictionaries.thesis_sheet import ThesisScale as SheetScale

    scale = SheetScale(quick, str(data.resolve()) if data is not None else None, events or FULL)
    return reproduce_sheets(output, table, figure, scale, out / "dictionaries", master)


def _conformance(
    output: Output,
    table: str | None,
    figure: str | None,
    nodes: int | None,
    subscriptions: int | None,
    data: Path | None,
    quick: bool,
    out: Path,
    master: str,
) -> dict[str, Any]:
    from thinwire_lab.cli.reproduce_texts import asked
    from thinwire_lab.cli.reproduce_texts import reproduce_conformance_figures as reproduce_figures
    from thinwire_lab.reproduce.conformance.conformance_figures import FIGURES

    _refuse_tables(table, FIGURES)
    return reproduce_figures(output, figure, asked(nodes, subscriptions, data, quick), out / "conformance", master)


def _workload(output: Output, figure: str | None, data: Path | None, out: Path) -> dict[str, Any]:
    from thinwire_lab.cli.reproduce_texts import reproduce_workload_figures as reproduce_figures

    return reproduce_figures(output, figure, data, out / "workload")


def _figure_5(output: Output, chosen: Experiment, scale: FigureScale, out: Path) -> Any:
    from thinwire_lab.reproduce import figure_plots as plots

    events = scale.events
    sizes = _watched("figure 5", lambda progress: experiment.figure_5(events, progress=progress))
    columns = ("format", "published MB", "ours, MB a million events", "off by", "measured MB")
    rows = [
        (name, experiment.PUBLISHED[name], size, f"{100 * (size / experiment.PUBLISHED[name] - 1):+.1f} %",
         size * events / 1e6)
        for name, size in sizes.items()
    ]  # fmt: skip
    output.table(f"figure 5: {chosen.figures[5]} ({events:,} events)", columns, rows)
    pictures = plots.figure_5(sizes, out)
    _point_at(output, pictures)
    return {"rows": [dict(zip(columns, row, strict=True)) for row in rows], "pictures": pictures}


def _figure_6(output: Output, chosen: Experiment, scale: FigureScale, out: Path) -> Any:
    from thinwire_lab.reproduce import figure_plots as plots

    events = scale.events
    stages = _watched("figure 6", lambda progress: experiment.figure_6(events, progress=progress))
    columns = ("format", *experiment.STAGES, "first hop to raw", "second hop to raw")
    rows = [(s.format, *s.per_event, *(f"1/{s.totals[0] / hop:.1f}" for hop in s.totals[1:3])) for s in stages]
    output.table(f"figure 6: {chosen.figures[6]} (MB a million events, {events:,} events)", columns, rows)
    plain = stages[0]
    verdict = "it does" if plain.totals[1] < plain.totals[0] / 10 else "it does NOT"
    output.note(f"published: {experiment.STATEMENT}; here {verdict}: 1/{plain.totals[0] / plain.totals[1]:.1f}.")
    output.note("checked on every event: the broker's copy equals the raw event, the subscriber's is within 1.0.")
    live, table = _figure_6_live(output, events)
    pictures = plots.figure_6([*stages, *live], out)
    _point_at(output, pictures)
    statement = {"published": experiment.STATEMENT, "holds": plain.totals[1] < plain.totals[0] / 10}
    table_before = [dict(zip(columns, row, strict=True)) for row in rows]
    return {"rows": table_before, "live rows": table, **statement, "pictures": pictures}


def _figure_6_live(output: Output, events: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """The same through the running system, for the formats it has."""
    if find_spec("nats") is None:
        output.note("not measured through the running system: that needs the extra nats.")
        return [], []
    from thinwire_lab.reproduce.virtual_events import live_figures as running

    live = _watched("figure 6, live", lambda progress: running.figure_6_live(events, progress=progress))
    stored = ("log stored", "channel stored")
    columns = ("format", *experiment.STAGES, *stored, "first hop to raw", "second hop to raw")
    rows = [
        (s.format, *s.per_event, *s.stored_per_event, *(f"1/{s.totals[0] / hop:.1f}" for hop in s.totals[1:3]))
        for s in live
    ]
    title = "figure 6 live: the messages of log and channel, embedded broker with registry and translator"
    output.table(f"{title} (MB a million events, {live[0].events:,} events)", columns, rows)
    output.note("format and predictor are the log's: channels are compact and choose their predictors.")
    output.note("gzip and Avro are no formats of the system: their rows are the ones without a broker.")
    return live, [dict(zip(columns, row, strict=True)) for row in rows]


def _figure_7(output: Output, chosen: Experiment, scale: FigureScale, out: Path) -> Any:
    from thinwire_lab.reproduce import figure_plots as plots
    from thinwire_lab.reproduce.virtual_events import virtual_event_figures as chain

    seconds = chain.seconds_for(scale.events)
    chains = _watched("figure 7", lambda progress: chain.figure_7(scale.runs, seconds, progress=progress))
    columns = ("chain", "process", "cores", "spread", "memory MB", "spread MB")
    rows = [(chain.KINDS[c.kind], role, *point) for c in chains for role, point in c.by_role.items()]
    title = f"figure 7: {chosen.figures[7]} ({scale.runs} runs of {seconds:g} s, {chain.RATE:g} events/s)"
    output.table(title, columns, rows)
    stored = {chain.KINDS[c.kind]: c.stored[0] for c in chains}
    told = ", ".join(f"{name} {size:.1f}" for name, size in stored.items())
    output.note(f"bytes stored at the broker, an event: {told}.")
    lost = sum(run.lost for c in chains for run in c.runs)
    output.note(f"events lost: {lost}.")
    pictures = plots.figure_7(chains, out)
    _point_at(output, pictures)
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    return {"rows": table, "stored bytes an event": stored, "events lost": lost, "pictures": pictures}


_FIGURES: dict[int, Callable[[Output, Experiment, FigureScale, Path], Any]] = {5: _figure_5, 6: _figure_6, 7: _figure_7}


def _list(output: Output) -> None:
    from thinwire_lab.cli.reproduce_texts import COLUMNS, NAME
    from thinwire_lab.cli.reproduce_texts import list_conformance_figures as conformance_figures
    from thinwire_lab.cli.reproduce_texts import list_dictionary_items as sheets
    from thinwire_lab.cli.reproduce_texts import list_workload_figures as workload_figures
    from thinwire_lab.reproduce.conformance import conformance_figures as conformance
    from thinwire_lab.reproduce.dictionaries.thesis_numbers import PAPER
    from thinwire_lab.reproduce.workload import workload_figures as workload

    rows = [
        (e.name, f"figure {number}", what, f"thinwire reproduce {e.name} --figure {number}")
        for e in EXPERIMENTS.values()
        for number, what in e.figures.items()
    ]
    rows += sheets() + conformance_figures() + workload_figures()
    output.table("what can be reproduced", COLUMNS, rows)
    papers = {e.name: e.paper for e in EXPERIMENTS.values()} | {NAME: PAPER}
    papers |= {conformance.NAME: conformance.PAPER, workload.NAME: workload.PAPER}
    for name, paper in papers.items():
        output.note(f"{name}: {paper}")
    output.document({"experiments": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})


def _watched(what: str, work: Callable[[experiment.Progress], Any]) -> Any:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        return work(lambda share: progress.update(task, completed=share))


def _point_at(output: Output, pictures: list[Path]) -> None:
    output.note("pictures: " + ", ".join(map(str, pictures)))
