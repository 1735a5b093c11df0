"""The texts of `thinwire reproduce`: placement, conformance, dictionaries and workload.

Cells run in parallel on Spark if it is available, otherwise one after the other in this process. Apart from processor
times, the results are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thinwire.cli.output import Output
from thinwire_lab.cli.bench import SHARED_DATA
from thinwire_lab.cli.cell_runner import cell_runner
from thinwire_lab.cli.summary_files import read_summary
from thinwire_lab.placement.run_files import RUNS
from thinwire_lab.reproduce.conformance import conformance_figures as conformance
from thinwire_lab.reproduce.conformance.conformance_cells import ConformanceFigure, ConformanceScale, Rows, grown
from thinwire_lab.reproduce.dictionaries import thesis_items as dictionaries
from thinwire_lab.reproduce.dictionaries import thesis_numbers
from thinwire_lab.reproduce.dictionaries.thesis_sheet import Sheet, ThesisScale
from thinwire_lab.reproduce.experiment import find
from thinwire_lab.reproduce.placement import placement_cells
from thinwire_lab.reproduce.placement import placement_figures as placement
from thinwire_lab.reproduce.workload import workload_figures as workload
from thinwire_lab.streams.threshold_streams import BAR_FILES

QUICK = ConformanceScale(nodes=400, subscriptions=1_200, sources=6)


COLUMNS = ("name", "figure", "what", "command")


def list_figures(name: str, figures: Mapping[Any, str]) -> list[tuple[str, str, str, str]]:
    """Return the figures of a text, each with its command."""
    return [(name, f"figure {n}", what, f"thinwire reproduce {name} --figure {n}") for n, what in figures.items()]


def conformance_scale(nodes: int | None, subscriptions: int | None, data: Path | None, quick: bool) -> ConformanceScale:
    """Return the scale of the options. Recordings beside the project are used by default."""
    default = QUICK if quick else ConformanceScale()
    folder = SHARED_DATA if data is None and any(SHARED_DATA.glob(BAR_FILES)) else data
    # Tasks of a Spark job have another working directory.
    where = None if folder is None else str(folder.resolve())
    return ConformanceScale(nodes or default.nodes, subscriptions or default.subscriptions, where, default.sources)


def reproduce_conformance_figures(
    output: Output, figure: str | None, scale: ConformanceScale, out: Path, master: str
) -> dict[str, Any]:
    """Reproduce figures and print each one when it is complete."""
    figures = conformance.chosen(figure)
    output.note(conformance.PAPER)
    output.note(f"streams: {'minute bars in ' + scale.data if scale.data else 'the market sample'}, and the attack.")
    document: dict[str, Any] = {
        "experiment": conformance.NAME,
        "paper": conformance.PAPER,
        "data": scale.data,
        "nodes": scale.nodes,
    }
    known: dict[str, Rows] = {}
    with cell_runner(master, output, app=f"thinwire reproduce {conformance.NAME}") as run:
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
        output.note(f"ours: {grown(rows, figure, measure)}")
        tables[label] = [dict(zip(columns, line, strict=True)) for line in table]
    output.note(f"published: {figure.shape}")
    return {"published": figure.shape, "tables": tables, "pictures": _draw(output, figure, rows, out)}


def _draw(output: Output, figure: ConformanceFigure, rows: Rows, out: Path) -> list[Path]:
    if find_spec("matplotlib") is None:
        output.note("no pictures: the extra plots is not installed.")
        return []
    from thinwire_lab.reproduce.conformance.conformance_figures import draw

    pictures = draw(figure, rows, out)
    output.note("pictures: " + ", ".join(map(str, pictures)))
    return pictures


NAME = "dictionaries"


def list_dictionary_items() -> list[tuple[str, str, str, str]]:
    """Return the tables and figures on dictionaries, each with its command."""
    rows = []
    for name, item in dictionaries.select_items():
        kind, number = name.split()
        rows.append((NAME, name, item.title, f"thinwire reproduce {NAME} --{kind} {number}"))
    return rows


def reproduce_sheets(
    output: Output, table: str | None, figure: str | None, scale: ThesisScale, out: Path, master: str
) -> dict[str, Any]:
    """Reproduce tables and figures and print each one when it is complete."""
    chosen = dictionaries.select_items(table, figure)
    output.note(thesis_numbers.PAPER)
    out.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "experiment": NAME,
        "paper": thesis_numbers.PAPER,
        "quick": scale.quick,
        "messages": scale.most,
    }
    with cell_runner(master, output, app=f"thinwire reproduce {NAME}") as run:
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


def reproduce_placement(
    output: Output, table: str | None, figure: str | None, quick: bool, data: Path | None, out: Path, master: str
) -> dict[str, Any]:
    """Reproduce figures and tables on placement."""
    wanted, paper = placement.chosen(table, figure), find("placement").paper
    output.note(paper)
    output.note(SIMULATED)
    if data is None or not (data / RUNS).exists():
        output.note(f"without measured runs: they need --data with {RUNS}, which `thinwire bench edge` writes.")
    document: dict[str, Any] = {"experiment": "placement", "paper": paper, "quick": quick}
    out.mkdir(parents=True, exist_ok=True)
    with cell_runner(master, output, app="thinwire reproduce placement") as sweep:
        experiment = placement_cells.PlacementExperiment(
            placement_cells.QUICK if quick else placement_cells.PlacementScale(), out, sweep, data
        )
        for name, makers in wanted.items():
            document[name] = []
            for sheet in (sheet for make in makers for sheet in make(experiment)):
                show(output, sheet)
                document[name].append(sheet.document)
    return document


def reproduce_workload_figures(output: Output, figure: str | None, data: Path | None, out: Path) -> dict[str, Any]:
    """Reproduce figures of the built-in summary, or of the one in a folder."""
    numbers = workload.chosen(figure)
    members = read_summary(data).members
    output.note(workload.PAPER)
    document: dict[str, Any] = {
        "experiment": workload.NAME,
        "paper": workload.PAPER,
        "summary": str(data or "built-in"),
    }
    plots = find_spec("matplotlib") is not None
    if not plots:
        output.note("no pictures: the extra plots is not installed.")
    for number in numbers:
        pictures: list[Path] = []
        if plots:
            from thinwire_lab.reproduce.workload.workload_figures import draw

            pictures = draw(number, members, out)
        sheet = workload.FIGURES[number].sheet(number, members, pictures)
        show(output, sheet)
        document[f"figure {number}"] = sheet.document
    return document
