"""`thinwire reproduce conformance`: the thesis' figures, its shape in words beside ours, as tables and pictures."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thinwire.cli.output import Output
from thinwire.cli.spark_options import running
from thinwire_lab.cli.bench import SHARED_DATA
from thinwire_lab.reproduce.conformance.conformance_cells_conformance_figure import Figure, Rows, Scale, grown
from thinwire_lab.reproduce.conformance.conformance_figures import FIGURES, NAME, PAPER, chosen
from thinwire_lab.streams.threshold_streams import BARS

QUICK = Scale(nodes=400, subscriptions=1_200, sources=6)


def listing() -> list[tuple[str, str, str, str]]:
    """Everything that can be made again, each with its command."""
    return [(NAME, f"figure {n}", f.what, f"thinwire reproduce {NAME} --figure {n}") for n, f in FIGURES.items()]


def asked(nodes: int | None, subscriptions: int | None, data: Path | None, quick: bool) -> Scale:
    """What the options come to; recordings that lie beside the project are taken unasked."""
    usual = QUICK if quick else Scale()
    folder = SHARED_DATA if data is None and any(SHARED_DATA.glob(BARS)) else data
    # Tasks of a Spark job have another working directory.
    where = None if folder is None else str(folder.resolve())
    return Scale(nodes or usual.nodes, subscriptions or usual.subscriptions, where, usual.sources)


def reproduce_figures(output: Output, figure: str | None, scale: Scale, out: Path, master: str) -> dict[str, Any]:
    """Make figures, one after the other, and print each as soon as it is there."""
    figures = chosen(figure)
    output.note(PAPER)
    output.note(f"streams: {'minute bars in ' + scale.data if scale.data else 'the market sample'}, and the attack.")
    document: dict[str, Any] = {"experiment": NAME, "paper": PAPER, "data": scale.data, "nodes": scale.nodes}
    known: dict[str, Rows] = {}
    with running(master, output, app=f"thinwire reproduce {NAME}") as run:
        for one in figures:
            # Figures of the same cells show other columns of the same answers.
            cells = f"{one.function.__name__} {one.cells(scale)}"
            known[cells] = known.get(cells) or one.rows(scale, run)
            document[f"figure {one.number}"] = _show(output, one, known[cells], out)
    return document


def _show(output: Output, figure: Figure, rows: Rows, out: Path) -> dict[str, Any]:
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


def _drawn(output: Output, figure: Figure, rows: Rows, out: Path) -> list[Path]:
    if find_spec("matplotlib") is None:
        output.note("no pictures: that needs the extra plots.")
        return []
    from thinwire_lab.reproduce.conformance.conformance_figures_conformance_plots import draw

    pictures = draw(figure, rows, out)
    output.note("pictures: " + ", ".join(map(str, pictures)))
    return pictures
