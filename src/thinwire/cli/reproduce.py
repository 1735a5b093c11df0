"""`thinwire reproduce [NAME]`: published figures again, theirs beside ours, as tables and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from thinwire.cli.output import JsonOption, Output
from thinwire.errors import ConfigError
from thinwire.evaluation.reproduce import EXPERIMENTS, Experiment, find
from thinwire.evaluation.reproduce import virtual_events as experiment

QUICK, FULL = 20_000, 1_000_000

NameArgument = Annotated[str, typer.Argument(help="What to reproduce; see --list.")]
ListOption = Annotated[bool, typer.Option("--list", help="List what can be reproduced.")]
FigureOption = Annotated[int | None, typer.Option("--figure", help="Only this figure.")]
EventsOption = Annotated[int | None, typer.Option("--events", help=f"How many events; {FULL:,} by default.", min=2)]
QuickOption = Annotated[bool, typer.Option("--quick", help=f"{QUICK:,} events.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the pictures.")]


def reproduce(
    name: NameArgument = "virtual-events",
    listing: ListOption = False,
    figure: FigureOption = None,
    events: EventsOption = None,
    quick: QuickOption = False,
    out: OutOption = Path("runs/reproduce"),
    json: JsonOption = False,
) -> None:
    """Every table and figure again, ours beside the published ones."""
    output = Output(json)
    if listing:
        _list(output)
        return
    chosen = find(name)
    if figure is not None and figure not in chosen.figures:
        raise ConfigError("no such figure", figure=figure, choose_from=sorted(chosen.figures))
    count = events or (QUICK if quick else FULL)
    output.note(chosen.paper)
    document: dict[str, Any] = {"experiment": name, "paper": chosen.paper, "events": count}
    for number in [figure] if figure else sorted(chosen.figures):
        document[f"figure {number}"] = _FIGURES[number](output, chosen, count, out)
    output.document(document)


def _figure_5(output: Output, chosen: Experiment, events: int, out: Path) -> Any:
    from thinwire.evaluation.reproduce import plots

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


def _figure_6(output: Output, chosen: Experiment, events: int, out: Path) -> Any:
    from thinwire.evaluation.reproduce import plots

    stages = _watched("figure 6", lambda progress: experiment.figure_6(events, progress=progress))
    columns = ("format", *experiment.STAGES, "first hop to raw", "second hop to raw")
    rows = [(s.format, *s.per_event, *(f"1/{s.totals[0] / hop:.1f}" for hop in s.totals[1:3])) for s in stages]
    output.table(f"figure 6: {chosen.figures[6]} (MB a million events, {events:,} events)", columns, rows)
    plain = stages[0]
    verdict = "it does" if plain.totals[1] < plain.totals[0] / 10 else "it does NOT"
    output.note(f"published: {experiment.STATEMENT}; here {verdict}: 1/{plain.totals[0] / plain.totals[1]:.1f}.")
    output.note("checked on every event: the broker's copy equals the raw event, the subscriber's is within 1.0.")
    pictures = plots.figure_6(stages, out)
    _point_at(output, pictures)
    statement = {"published": experiment.STATEMENT, "holds": plain.totals[1] < plain.totals[0] / 10}
    return {"rows": [dict(zip(columns, row, strict=True)) for row in rows], **statement, "pictures": pictures}


_FIGURES: dict[int, Callable[[Output, Experiment, int, Path], Any]] = {5: _figure_5, 6: _figure_6}


def _list(output: Output) -> None:
    rows = [
        (e.name, f"figure {number}", what, f"thinwire reproduce {e.name} --figure {number}")
        for e in EXPERIMENTS.values()
        for number, what in e.figures.items()
    ]
    columns = ("name", "figure", "what", "command")
    output.table("what can be reproduced", columns, rows)
    for e in EXPERIMENTS.values():
        output.note(f"{e.name}: {e.paper}")
    output.document({"experiments": [dict(zip(columns, row, strict=True)) for row in rows]})


def _watched(what: str, work: Callable[[experiment.Progress], Any]) -> Any:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        return work(lambda share: progress.update(task, completed=share))


def _point_at(output: Output, pictures: list[Path]) -> None:
    output.note("pictures: " + ", ".join(map(str, pictures)))
