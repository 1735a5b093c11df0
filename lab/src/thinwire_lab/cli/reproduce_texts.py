"""`thinwire reproduce placement`: the published figures on placement, theirs beside ours, measured and simulated apart.

Cells run side by side on Spark where it can run, else one after the other in this process.

`thinwire reproduce conformance`: the thesis' figures, its shape in words beside ours, as tables and pictures.

`thinwire reproduce dictionaries`: the tables and figures of the thesis on shared dictionaries.

Their cells run side by side on Spark where it can run, else one after the other in this process: the figures are the
same, but for processor times.

`thinwire reproduce workload`: the figures of the workload generator's paper, its words beside our numbers.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thinwire.cli.output import Output
from thinwire_lab.cli.bench import SHARED_DATA
from thinwire_lab.cli.cell_runner import cell_runner
from thinwire_lab.cli.summary_files import read_summary
from thinwire_lab.placement.run_files import RUNS
from thinwire_lab.reproduce import find
from thinwire_lab.reproduce.conformance.conformance_cells import ConformanceFigure, ConformanceScale, Rows, grown
from thinwire_lab.reproduce.conformance.conformance_figures import FIGURES, PAPER, chosen
from thinwire_lab.reproduce.conformance.conformance_figures import NAME as CONFORMANCE_FIGURES_NAME
from thinwire_lab.reproduce.dictionaries import thesis_items as dictionaries
from thinwire_lab.reproduce.dictionaries.thesis_numbers import PAPER as THESIS_NUMBERS_PAPER
from thinwire_lab.reproduce.dictionaries.thesis_sheet import Sheet
from thinwire_lab.reproduce.dictionaries.thesis_sheet import ThesisScale as ThesisSheetScale
from thinwire_lab.reproduce.placement import placement_figures as placement
from thinwire_lab.reproduce.placement.placement_cells import QUICK as PLACEMENT_CELLS_QUICK
from thinwire_lab.reproduce.placement.placement_cells import PlacementExperiment
from thinwire_lab.reproduce.placement.placement_cells import PlacementScale as PlacementCellsScale
from thinwire_lab.reproduce.workload.workload_figures import FIGURES as WORKLOAD_FIGURES_FIGURES
from thinwire_lab.reproduce.workload.workload_figures import NAME as WORKLOAD_FIGURES_NAME
from thinwire_lab.reproduce.workload.workload_figures import PAPER as WORKLOAD_FIGURES_PAPER
from thinwire_lab.reproduce.workload.workload_figures import chosen as workload_figures_chosen
from thinwire_lab.streams.threshold_streams import BARS

QUICK = ConformanceScale(nodes=400, subscriptions=1_200, sources=6)


def list_conformance_figures() -> list[tuple[str, str, str, str]]:
    """Everything that can be made again, each with its command."""
    return [
        (CONFORMANCE_FIGURES_NAME, f"figure {n}", f.what, f"thinwire reproduce {CONFORMANCE_FIGURES_NAME} --figure {n}")
        for n, f in FIGURES.items()
    ]


def asked(nodes: int | None, subscriptions: int | None, data: Path | None, quick: bool) -> ConformanceScale:
    """What the options come to; recordings that lie beside the project are taken unasked."""
    usual = QUICK if quick else ConformanceScale()
    folder = SHARED_DATA if data is None and any(SHARED_DATA.glob(BARS)) else data
    # Tasks of a Spark job have another working directory.
    where = None if folder is None else str(folder.resolve())
    return ConformanceScale(nodes or usual.nodes, subscriptions or usual.subscriptions, where, usual.sources)


def reproduce_conformance_figures(
    output: Output, figure: str | None, scale: ConformanceScale, out: Path, master: str
) -> dict[str, Any]:
    """Make figures, one after the other, and print each as soon as it is there."""
    figures = chosen(figure)
    output.note(PAPER)
    output.note(f"streams: {'minute bars in ' + scale.data if scale.data else 'the market sample'}, and the attack.")
    document: dict[str, Any] = {
        "experiment": CONFORMANCE_FIGURES_NAME,
        "paper": PAPER,
        "data": scale.data,
        "nodes": scale.nodes,
    }
    known: dict[str, Rows] = {}
    with cell_runner(master, output, app=f"thinwire reproduce {CONFORMANCE_FIGURES_NAME}") as run:
        for one in figures:
            # Figures of the same cells show other columns of the same answers.
            cells = f"{one.function.__name__} {one.cells(scale)}"
            known[cells] = known.get(cells) or one.rows(scale, run)
            document[f"figure {one.number}"] = _show(output, one, known[cells], out)
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
    return {"published": figure.shape, "tables": tables, "pictures": _drawn(output, figure, rows, out)}


def _drawn(output: Output, figure: ConformanceFigure, rows: Rows, out: Path) -> list[Path]:
    if find_spec("matplotlib") is None:
        output.note("no pictures: that needs the extra plots.")
        return []
    from thinwire_lab.reproduce.conformance.conformance_figures import draw

    pictures = draw(figure, rows, out)
    output.note("pictures: " + ", ".join(map(str, pictures)))
    return pictures


NAME = "dictionaries"
COLUMNS = ("name", "figure", "what", "command")


def list_dictionary_items() -> list[tuple[str, str, str, str]]:
    """Everything that can be made again, each with its command."""
    rows = []
    for name, item in dictionaries.chosen():
        kind, number = name.split()
        rows.append((NAME, name, item.what, f"thinwire reproduce {NAME} --{kind} {number}"))
    return rows


def reproduce_sheets(
    output: Output, table: str | None, figure: str | None, scale: ThesisSheetScale, out: Path, master: str
) -> dict[str, Any]:
    """Make sheets, one after the other, and print each as soon as it is there."""
    chosen = dictionaries.chosen(table, figure)
    output.note(THESIS_NUMBERS_PAPER)
    out.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "experiment": NAME,
        "paper": THESIS_NUMBERS_PAPER,
        "quick": scale.quick,
        "messages": scale.most,
    }
    with cell_runner(master, output, app=f"thinwire reproduce {NAME}") as run:
        for name, item in chosen:
            sheet = dictionaries.reproduce(name, item, scale, run, out)
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


SIMULATED = "simulated, where nothing else is said: queues that share four cores; the published runs are not public."


def reproduce_placement(
    output: Output, table: str | None, figure: str | None, quick: bool, data: Path | None, out: Path, master: str
) -> dict[str, Any]:
    """Print the figures, and answer with the document of the run."""
    wanted, paper = placement.chosen(table, figure), find("placement").paper
    output.note(paper)
    output.note(SIMULATED)
    if data is None or not (data / RUNS).exists():
        output.note(
            f"nothing measured here is shown: that needs --data with {RUNS}, which `thinwire bench edge` writes."
        )
    document: dict[str, Any] = {"experiment": "placement", "paper": paper, "quick": quick}
    out.mkdir(parents=True, exist_ok=True)
    with cell_runner(master, output, app="thinwire reproduce placement") as sweep:
        experiment = PlacementExperiment(PLACEMENT_CELLS_QUICK if quick else PlacementCellsScale(), out, sweep, data)
        for name, makers in wanted.items():
            document[name] = []
            for sheet in (sheet for make in makers for sheet in make(experiment)):
                show(output, sheet)
                document[name].append(sheet.document)
    return document


def list_workload_figures() -> list[tuple[str, str, str, str]]:
    """Everything that can be made again, each with its command."""
    return [
        (WORKLOAD_FIGURES_NAME, f"figure {n}", f.what, f"thinwire reproduce {WORKLOAD_FIGURES_NAME} --figure {n}")
        for n, f in WORKLOAD_FIGURES_FIGURES.items()
    ]


def reproduce_workload_figures(output: Output, figure: str | None, data: Path | None, out: Path) -> dict[str, Any]:
    """Make figures of the built-in summary, or of the one in a folder."""
    numbers = workload_figures_chosen(figure)
    members = read_summary(data).members
    output.note(WORKLOAD_FIGURES_PAPER)
    document: dict[str, Any] = {
        "experiment": WORKLOAD_FIGURES_NAME,
        "paper": WORKLOAD_FIGURES_PAPER,
        "summary": str(data or "built-in"),
    }
    plots = find_spec("matplotlib") is not None
    if not plots:
        output.note("no pictures: that needs the extra plots.")
    for number in numbers:
        pictures: list[Path] = []
        if plots:
            from thinwire_lab.reproduce.workload.workload_figures import draw

            pictures = draw(number, members, out)
        sheet = WORKLOAD_FIGURES_FIGURES[number].sheet(number, members, pictures)
        show(output, sheet)
        document[f"figure {number}"] = sheet.document
    return document
