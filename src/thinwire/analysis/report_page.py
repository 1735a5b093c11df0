"""The report of an analysis as one HTML page without scripts or external files. Charts are embedded SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from thinwire.analysis.report import COLUMNS, AnalysisReport, percent

COLOURS = {"compact": "#1f6f8b", "json": "#b0722a"}
_CHOSEN = "#b3261e"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2226; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #e1e5e8; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.chosen { background: #fdf0ee; font-weight: 600; }
tr.front td:first-child::before { content: "\\25CF "; color: #1f6f8b; } .wide { overflow-x: auto; }
.lead { font-size: 17px; } code, pre { background: #f3f5f6; padding: .1rem .3rem; white-space: pre-wrap; }
svg { max-width: 100%; height: auto; }
"""
_METHOD = """
The events are split in time. Schema and ranges come from the first part; all figures are of the held-out part. The real
encoder and decoder processed these events in the events' own time, including start, key frames and heartbeats, and
frames were batched into messages as in a live publisher. Errors are those of every value of every event, as delivered,
against the original. JSON has no blanks and the shortest numbers, and uses the same broker and client.
"""
_LIMITS = (
    "Bytes on the wire are those of one publisher and one subscriber on a NATS broker. They are computed from its "
    "protocol, not measured; connecting, pings, TLS, TCP and IP are not included.",
    "Events are published at their own time, and the broker acknowledges after a millisecond.",
    "CPU times are of this machine, one event at a time; use them as ratios.",
    "The cost of a property is measured by leaving it out of a sample; the costs do not add up to the total.",
    "Future events that differ from the held-out part will have other figures.",
)


def render_page(report: AnalysisReport) -> str:
    rejects = f" {report.rejected:,} lines are not events." if report.rejected else ""
    events = report.chosen.outcome.events
    limits = "".join(f"<li>{escape(limit)}</li>" for limit in (*_LIMITS, *report.notes))
    share = f"{100 * report.share:g} %"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>thinwire analyze</title><style>{_STYLE}</style></head><body>"
        "<h1>What thinwire would save</h1>"
        f'<section><h2>{escape(report.topic)}</h2><p class="lead">{escape(report.sentence)}</p>'
        f"<p>Trained on {report.training.events:,} events, measured on {events:,} held-out events.{rejects}</p>"
        f"{front_chart(report)}"
        "<h3>Strategies</h3><p>A dot marks the Pareto front: strategies that no other one dominates.</p>"
        f"{_strategy_table(report)}"
        f"<h3>JSON, for comparison</h3>{_baseline_table(report)}"
        f"<h3>Properties</h3>{_property_table(report)}{_reject_table(report)}</section>"
        f"<h2>Method</h2><p>{escape(_METHOD.strip())} The first part has {share} of the events.</p>"
        f"<h3>Limits</h3><ul>{limits}</ul>"
        f"<h3>Command</h3><pre>{escape(report.command or '(called from Python)')}</pre>"
        f"<p>{escape(', '.join(filter(None, (f'thinwire {report.version}', report.created))))}</p></body></html>\n"
    )


def _strategy_table(report: AnalysisReport) -> str:
    front = {rated.name for rated in report.front}
    rows = []
    for rated in report.by_saving:
        marks = {"front": rated.name in front, "chosen": rated is report.chosen}
        mark = " ".join(name for name, is_set in marks.items() if is_set)
        rows.append((mark, [column.cell(rated) for column in COLUMNS]))
    return _table([column.title for column in COLUMNS], rows)


def _baseline_table(report: AnalysisReport) -> str:
    head = ("JSON", "messages", "bytes per event", "on the wire", "deflated", "deflated, on the wire")
    rows = []
    for baseline in report.baselines:
        batching = "one message per event" if baseline.linger is None else f"batches, {1000 * baseline.linger:g} ms"
        sizes = (baseline.message, baseline.link, baseline.deflated_message, baseline.deflated_link)
        cells = (f"{size / max(1, baseline.events):.1f}" for size in sizes)
        rows.append(("", (batching, f"{baseline.messages:,}", *cells)))
    return _table(head, rows)


def _property_table(report: AnalysisReport) -> str:
    """One row per property: its cost at each level, and its error with the chosen strategy."""
    levels = list(dict.fromkeys(cost.level for cost in report.properties))
    costs = {(cost.property, cost.level): cost for cost in report.properties}
    head = (
        "property",
        "kind",
        *(f"{level}: bytes per event (values sent)" for level in levels),
        "largest error",
        "p99 of bound",
    )
    rows = []
    for p in report.training.schema.wire:
        found = [costs.get((p.name, level)) for level in levels]
        cells = (f"{c.bytes_per_event:.3f} ({100 * c.sent_share:.0f} %)" if c is not None else "-" for c in found)
        error = report.chosen.outcome.errors.get(p.name)
        p99 = error.ratios.quantile(0.99) if error is not None else None
        errors = (f"{error.worst:.4g}" if error is not None else "-", "-" if p99 is None else percent(p99))
        rows.append(("", (p.name, p.kind.value, *cells, *errors)))
    return _table(head, rows)


def _reject_table(report: AnalysisReport) -> str:
    if not report.rejects:
        return ""
    rows = [("", (f"{reject.file}:{reject.line}", reject.reason, reject.text)) for reject in report.rejects[:20]]
    return f"<h3>Lines that are not events</h3>{_table(('location', 'reason', 'text'), rows)}"


def _table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a table of rows with a CSS class and cells."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f'<tr class="{mark}">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for mark, cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def front_chart(report: AnalysisReport) -> str:
    """Return an SVG of saving against error. Points of the front are filled; a ring marks the chosen strategy."""
    from matplotlib.figure import Figure  # not pyplot, which has global state

    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    axes: Any = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e9ec")
    axes.set_axisbelow(True)
    front = {rated.name for rated in report.front}
    for form, colour in COLOURS.items():
        for is_front in (True, False):
            points = [
                (100 * r.error, 100 * r.link_saving)
                for r in report.strategies
                if r.outcome.strategy.format == form and (r.name in front) == is_front
            ]
            if points:
                label, face = (form, colour) if is_front else (f"{form}, dominated", "none")
                axes.scatter(*zip(*points, strict=True), s=46, label=label, edgecolors=colour, facecolors=face)
    chosen = report.chosen
    ring = {"s": 170, "facecolors": "none", "edgecolors": _CHOSEN, "linewidths": 1.6, "label": "chosen"}
    axes.scatter([100 * chosen.error], [100 * chosen.link_saving], **ring)
    axes.set_xlabel("largest error, % of a property's range")
    axes.set_ylabel("saved on the wire, % of JSON")
    axes.legend(frameon=False, fontsize=9)
    return _to_svg(figure)


def _to_svg(figure: Any) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "thinwire", "font.family": "sans-serif"}):
        FigureCanvasSVG(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    return text[text.index("<svg") :]
