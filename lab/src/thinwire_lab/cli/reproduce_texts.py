"""The texts of `thinwire reproduce`: placement, conformance, dictionaries and workload.

Cells run in parallel on Spark if it is available, otherwise one after the other in this process. Apart from processor
times, the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from thinwire.cli.output import Output
from thinwire.errors import ConfigError
from thinwire_lab.cli.bench import SHARED_DATA
from thinwire_lab.cli.cell_runner import cell_runner
from thinwire_lab.cli.pictures import draw_pictures
from thinwire_lab.cli.summary_files import read_summary
from thinwire_lab.placement.run_files import RUNS
from thinwire_lab.reproduce.conformance import conformance_figures as conformance
from thinwire_lab.reproduce.conformance.conformance_cells import (
    ConformanceFigure,
    ConformanceScale,
    Rows,
    describe_curves,
)
from thinwire_lab.reproduce.dictionaries import thesis_items as dictionaries
from thinwire_lab.reproduce.dictionaries import thesis_numbers
from thinwire_lab.reproduce.dictionaries.thesis_sheet import Sheet, ThesisScale
from thinwire_lab.reproduce.experiment import EXPERIMENTS, find
from thinwire_lab.reproduce.placement import placement_cells
from thinwire_lab.reproduce.placement import placement_figures as placement
from thinwire_lab.reproduce.workload import workload_figures as workload
from thinwire_lab.streams.threshold_streams import BAR_FILES


class ReproduceOptions(NamedTuple):
    """Options of `thinwire reproduce`."""

    table: str | None
    figure: str | None
    events: int | None
    quick: bool
    runs: int | None
    data: Path | None
    nodes: int | None
    subscriptions: int | None
    out: Path
    master: str

    def refuse_tables(self, figures: Iterable[int | str]) -> None:
        """Raise an error if a table is requested of a text without tables."""
        if self.table is not None:
            raise ConfigError("no tables, only figures", table=self.table, choose_from=list(figures))


FULL = 1_000_000
"""events"""
QUICK = ConformanceScale(nodes=400, subscriptions=1_200, sources=6)
COLUMNS = ("name", "figure", "what", "command")


def _conformance_scale(options: ReproduceOptions) -> ConformanceScale:
    """Return the scale of the options. `SHARED_DATA` is used by default, if it has recordings."""
    default = QUICK if options.quick else ConformanceScale()
    folder = SHARED_DATA if options.data is None and any(SHARED_DATA.glob(BAR_FILES)) else options.data
    # Tasks of a Spark job have another working directory.
    data = None if folder is None else str(folder.resolve())
    nodes, subscriptions = options.nodes or default.nodes, options.subscriptions or default.subscriptions
    return ConformanceScale(nodes, subscriptions, data, default.sources)


def reproduce_conformance(output: Output, options: ReproduceOptions) -> dict[str, Any]:
    """Reproduce figures and print each one when it is complete."""
    options.refuse_tables(conformance.FIGURES)
    figures, scale, out = (
        conformance.select_figures(options.figure),
        _conformance_scale(options),
        options.out / "conformance",
    )
    output.note(conformance.PAPER)
    output.note(f"streams: {'minute bars in ' + scale.data if scale.data else 'the market sample'}, and the attack.")
    document: dict[str, Any] = {
        "experiment": conformance.NAME,
        "paper": conformance.PAPER,
        "data": scale.data,
        "nodes": scale.nodes,
    }
    known: dict[str, Rows] = {}
    with cell_runner(options.master, output, app=f"thinwire reproduce {conformance.NAME}") as run:
        for chosen in figures:
            # figures of the same cells show other columns of the same results
            cells = f"{chosen.function.__name__} {chosen.cells(scale)}"
            known[cells] = known.get(cells) or chosen.rows(scale, run)
            document[f"figure {chosen.number}"] = _show(output, chosen, known[cells], out)
    return document


def _show(output: Output, figure: ConformanceFigure, rows: Rows, out: Path) -> dict[str, Any]:
    tables: dict[str, list[dict[str, Any]]] = {}
    for label, measure in figure.measures.items():
        series = [name for name in figure.series if f"{name} {measure}" in rows[0]]
        columns = (figure.axis, *series)
        table = [(row[figure.axis], *(row[f"{name} {measure}"] for name in series)) for row in rows]
        output.table(f"figure {figure.number}: {figure.what}; {label}", columns, table)
        output.note(f"ours: {describe_curves(rows, figure, measure)}")
        tables[label] = [dict(zip(columns, line, strict=True)) for line in table]
    output.note(f"published: {figure.statement}")
    return {
        "published": figure.statement,
        "tables": tables,
        "pictures": draw_pictures(output, conformance.draw, figure, rows, out),
    }


NAME = "dictionaries"


def reproduce_dictionaries(output: Output, options: ReproduceOptions) -> dict[str, Any]:
    """Reproduce tables and figures and print each one when it is complete."""
    chosen, out = dictionaries.select_items(options.table, options.figure), options.out / NAME
    data = str(options.data.resolve()) if options.data is not None else None
    scale = ThesisScale(options.quick, data, options.events or FULL)
    output.note(thesis_numbers.PAPER)
    out.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "experiment": NAME,
        "paper": thesis_numbers.PAPER,
        "quick": scale.quick,
        "messages": scale.most,
    }
    with cell_runner(options.master, output, app=f"thinwire reproduce {NAME}") as run:
        for name, item in chosen:
            sheet = item.make(scale, run, out)
            show(output, sheet)
            document[name] = sheet.document
    return document


def show(output: Output, sheet: Sheet) -> None:
    """Print a sheet."""
    output.table(sheet.title, sheet.columns, sheet.rows)
    for note in sheet.notes:
        output.note(note)
    if sheet.pictures:
        output.note("pictures: " + ", ".join(map(str, sheet.pictures)))


SIMULATED = "simulated unless stated otherwise: queues that share four cores; the published runs are not public."


def reproduce_placement(output: Output, options: ReproduceOptions) -> dict[str, Any]:
    """Reproduce figures and tables on placement."""
    quick, data, out = options.quick, options.data, options.out / "placement"
    wanted, paper = placement.select_items(options.table, options.figure), find("placement").paper
    output.note(paper)
    output.note(SIMULATED)
    if data is None or not (data / RUNS).exists():
        output.note(f"without measured runs: they need --data with {RUNS}, which `thinwire bench edge` writes.")
    document: dict[str, Any] = {"experiment": "placement", "paper": paper, "quick": quick}
    out.mkdir(parents=True, exist_ok=True)
    with cell_runner(options.master, output, app="thinwire reproduce placement") as sweep:
        experiment = placement_cells.PlacementExperiment(
            placement_cells.QUICK if quick else placement_cells.PlacementScale(), out, sweep, data
        )
        for name, makers in wanted.items():
            document[name] = []
            for sheet in (sheet for make in makers for sheet in make(experiment)):
                show(output, sheet)
                document[name].append(sheet.document)
    return document


def reproduce_workload(output: Output, options: ReproduceOptions) -> dict[str, Any]:
    """Reproduce figures of the built-in summary, or of the one in a folder."""
    options.refuse_tables(workload.FIGURES)
    numbers = workload.select_figures(options.figure)
    members = read_summary(options.data).members
    output.note(workload.PAPER)
    summary = str(options.data or "built-in")
    document: dict[str, Any] = {"experiment": workload.NAME, "paper": workload.PAPER, "summary": summary}
    has_plots = find_spec("matplotlib") is not None
    if not has_plots:
        output.note("no pictures: the extra plots is not installed.")
    for number in numbers:
        pictures = workload.draw(number, members, options.out / workload.NAME) if has_plots else []
        sheet = workload.FIGURES[number].sheet(number, members, pictures)
        show(output, sheet)
        document[f"figure {number}"] = sheet.document
    return document


ReproduceText = Callable[[Output, ReproduceOptions], dict[str, Any]]
TEXTS: dict[str, ReproduceText] = {
    "dictionaries": reproduce_dictionaries,
    "conformance": reproduce_conformance,
    "placement": reproduce_placement,
    "workload": reproduce_workload,
}


def list_texts(output: Output) -> None:
    """List all tables and figures, each with its command."""
    rows = [row for e in EXPERIMENTS.values() for row in _list_figures(e.name, e.figures)]
    rows += _list_dictionary_items()
    rows += _list_figures(conformance.NAME, {n: figure.what for n, figure in conformance.FIGURES.items()})
    rows += _list_figures(workload.NAME, {n: figure.what for n, figure in workload.FIGURES.items()})
    output.table("tables and figures", COLUMNS, rows)
    papers = {e.name: e.paper for e in EXPERIMENTS.values()} | {NAME: thesis_numbers.PAPER}
    papers |= {conformance.NAME: conformance.PAPER, workload.NAME: workload.PAPER}
    for name, paper in papers.items():
        output.note(f"{name}: {paper}")
    output.document({"experiments": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})


def _list_figures(name: str, figures: Mapping[Any, str]) -> list[tuple[str, str, str, str]]:
    return [(name, f"figure {n}", what, f"thinwire reproduce {name} --figure {n}") for n, what in figures.items()]


def _list_dictionary_items() -> list[tuple[str, str, str, str]]:
    items = dictionaries.select_items()
    return [(NAME, name, item.title, f"thinwire reproduce {NAME} --{name}") for name, item in items]
