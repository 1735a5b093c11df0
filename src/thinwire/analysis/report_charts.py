"""Pictures of an analysis as SVG that stands alone: text as text, no script, nothing from elsewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from thinwire.analysis.strategy_choice import Judged

COLOURS = {"compact": "#1f6f8b", "json": "#b0722a"}
_CHOSEN = "#b3261e"


def front_chart(judged: Sequence[Judged], front: Sequence[Judged], chosen: Judged) -> str:
    """Saving against error; the front is filled, the chosen one ringed."""
    figure, axes = _sheet()
    names = {one.name for one in front}
    for form, colour in COLOURS.items():
        for filled in (True, False):
            some = [j for j in judged if j.outcome.strategy.format == form and (j.name in names) == filled]
            label = form if filled else f"{form}, dominated"
            _points(axes, some, label, colour, filled)
    ring = {"s": 170, "facecolors": "none", "edgecolors": _CHOSEN, "linewidths": 1.6, "label": "chosen"}
    axes.scatter([100 * chosen.error], [100 * chosen.link_saving], **ring)
    axes.set_xlabel("largest error, % of a property's range")
    axes.set_ylabel("saved on the wire, % of JSON")
    axes.legend(frameon=False, fontsize=9)
    return _svg(figure)


def _points(axes: Any, judged: Sequence[Judged], label: str, colour: str, filled: bool) -> None:
    if judged:
        x, y = [100 * j.error for j in judged], [100 * j.link_saving for j in judged]
        axes.scatter(x, y, s=46, label=label, edgecolors=colour, facecolors=colour if filled else "none")


def _sheet() -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # a figure of its own, never pyplot's: nothing global

    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e9ec")
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Any) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "thinwire", "font.family": "sans-serif"}):
        FigureCanvasSVG(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return text[text.index("<svg") :]
