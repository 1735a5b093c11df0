"""What an analysis found, topic by topic, and the plan that follows from it.

Pictures of an analysis as SVG that stands alone: text as text, no script, nothing from elsewhere.

The report as one HTML page: it needs nothing but itself.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from thinwire.analysis.event_files import Reject
from thinwire.analysis.json_baseline import Baseline
from thinwire.analysis.property_cost import Learned, PropertyCost
from thinwire.analysis.strategy_choice import Judged, pareto
from thinwire.topics.topic_plan import Plan, TopicPlan
from thinwire.topics.topic_settings import Settings


@dataclass(frozen=True)
class TopicReport:
    """One topic.

    learned: from the training part; judged: every strategy on the held-out part; chosen: the one for the plan
    rejected, rejects: lines that are no event, counted and the first of them
    """

    topic: str
    learned: Learned
    judged: Sequence[Judged]
    chosen: Judged
    baselines: Sequence[Baseline]
    properties: Sequence[PropertyCost] = ()
    rejected: int = 0
    rejects: Sequence[Reject] = ()

    @property
    def front(self) -> list[Judged]:
        """Strategies that no other one beats in everything."""
        return pareto(self.judged)

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        strategy, outcome = self.chosen.outcome.strategy, self.chosen.outcome
        within = "exactly" if strategy.level.name == "exact" else f"within {strategy.level.name}"
        promise = "every event arrives" if outcome.kept else "the promise was BROKEN"
        return (
            f"{self.topic}: {_percent(self.chosen.link_saving)} fewer bytes on the wire than JSON, a message an event "
            f"({_percent(self.chosen.batched_saving)} fewer than JSON in batches, "
            f"{_percent(self.chosen.packed_saving)} fewer than deflated batches), "
            f"and {promise} {within}: {strategy.name}."
        )


@dataclass(frozen=True)
class AnalysisReport:
    """All topics; `command`: what was run, `made`: when, `version`: of thinwire, `share`: of the training part."""

    topics: Sequence[TopicReport]
    command: str = ""
    made: str = ""
    version: str = ""
    share: float = 0.5
    notes: Sequence[str] = field(default_factory=tuple)


def plan_of(report: AnalysisReport) -> Plan:
    """The plan that publishes each topic with the strategy chosen for it."""
    return Plan({one.topic: _topic_plan(one) for one in report.topics}, report.command)


def _topic_plan(report: TopicReport) -> TopicPlan:
    strategy, schema, chosen = report.chosen.outcome.strategy, report.learned.schema, report.chosen
    settings = Settings(
        retain=True,
        format=strategy.format,
        mode=strategy.mode,
        predictor=strategy.predictor,
        key_frame_interval=strategy.key_frame_interval,
        max_silence=strategy.max_silence,
        tolerance=strategy.level.tolerances(schema, report.learned.ranges),
        dictionaries=strategy.packing != "none",
    )
    expected = {
        "frame_saving": round(chosen.frame_saving, 4),
        "link_saving": round(chosen.link_saving, 4),
        "batched_saving": round(chosen.batched_saving, 4),
        "error": float(f"{chosen.error:.4g}"),
    }
    return TopicPlan(schema, settings, strategy.linger, strategy.max_batch, expected)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


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
The events are split in time. Schema and ranges come from the first part alone; every figure here is from the part held
out. The real publisher and subscriber ran over those events in the events' own time, key frames, heartbeats and
starting up included; frames were joined into messages as a live publisher joins them. Errors are those of every value
of every event, as the subscriber has it, against the original. JSON has no blanks and the shortest numbers, and goes
through the same broker and client.
"""
_LIMITS = (
    "Bytes on the wire are those of one publisher and one subscriber on a NATS broker, computed from its protocol, not "
    "measured: connecting, pings, TLS, TCP and IP are left out.",
    "Events are taken to come when they say they happened, and the broker to acknowledge after a millisecond.",
    "Processor times are of this machine, one event at a time; take them as ratios.",
    "What a property costs is found by leaving it out of a sample; such costs do not add up to the whole.",
    "A future unlike the held-out part will be different.",
)


def render(report: AnalysisReport) -> str:
    """The page."""
    body = "".join(_topic(one) for one in report.topics)
    limits = "".join(f"<li>{escape(limit)}</li>" for limit in (*_LIMITS, *report.notes))
    share = f"{100 * report.share:g} %"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>thinwire analyze</title><style>{_STYLE}</style></head><body>"
        f"<h1>What thinwire would save</h1>{body}"
        f"<h2>Method</h2><p>{escape(_METHOD.strip())} The first part has {share} of the events.</p>"
        f"<h3>Limits</h3><ul>{limits}</ul>"
        f"<h3>Command</h3><pre>{escape(report.command or '(called from Python)')}</pre>"
        f"<p>thinwire {escape(report.version)}{escape(f', {report.made}' if report.made else '')}</p></body></html>\n"
    )


def _topic(report: TopicReport) -> str:
    rejects = f" {report.rejected:,} lines were no events." if report.rejected else ""
    events = report.chosen.outcome.events
    return (
        f'<section><h2>{escape(report.topic)}</h2><p class="lead">{escape(report.sentence)}</p>'
        f"<p>Learnt from {report.learned.events:,} events, measured on {events:,} held out.{rejects}</p>"
        f"{front_chart(report.judged, report.front, report.chosen)}"
        f"<h3>Strategies</h3><p>A dot marks those that no other beats in everything.</p>{_strategies(report)}"
        f"<h3>JSON, for comparison</h3>{_baselines(report)}"
        f"<h3>Properties</h3>{_properties(report)}{_rejects(report)}</section>"
    )


def _strategies(report: TopicReport) -> str:
    head = (
        "strategy",
        "saved on the wire",
        "against batches",
        "deflated batches",
        "frames to JSON",
        "bytes an event",
        "messages",
        "events untold",
        "largest error",
        "of its bound",
        "CPU publish",
        "CPU receive",
    )
    front = {one.name for one in report.front}
    rows = []
    for one in sorted(report.judged, key=lambda j: -j.link_saving):
        marks = [mark for mark, is_so in (("front", one.name in front), ("chosen", one is report.chosen)) if is_so]
        rows.append((" ".join(marks), _cells(one)))
    return _table(head, rows)


def _cells(one: Judged) -> tuple[str, ...]:
    outcome = one.outcome
    total, events = outcome.total, max(1, outcome.events)
    return (
        one.name + ("" if outcome.kept else " (promise broken)"),
        _percent(one.link_saving),
        _percent(one.batched_saving),
        _percent(one.packed_saving),
        _percent(one.frame_saving),
        f"{total.frame / events:.2f} / {total.link / events:.1f}",
        f"{total.messages:,}",
        _percent(outcome.suppressed_events / events),
        f"{100 * one.error:.3g} % of range",
        _percent(outcome.worst),
        _micros(outcome.publish_cpu),
        _micros(outcome.receive_cpu),
    )


def _baselines(report: TopicReport) -> str:
    rows = []
    for one in report.baselines:
        how = "a message an event" if one.linger is None else f"batches, {1000 * one.linger:g} ms"
        sizes = (one.message, one.link, one.deflated_message, one.deflated_link)
        rows.append(("", (how, f"{one.messages:,}", *(f"{size / max(1, one.events):.1f}" for size in sizes))))
    head = ("JSON", "messages", "bytes an event", "on the wire", "deflated", "deflated, on the wire")
    return _table(head, rows)


def _properties(report: TopicReport) -> str:
    """One row a property: what it costs, and travels, at each level; how far it is off with the chosen strategy."""
    levels = list(dict.fromkeys(cost.level for cost in report.properties))
    costs = {(cost.property, cost.level): cost for cost in report.properties}
    errors = report.chosen.outcome.errors
    rows = []
    for p in report.learned.schema.wire:
        found = [costs.get((p.name, level)) for level in levels]
        cells = (f"{c.bytes_per_event:.3f} ({100 * c.told:.0f} %)" if c is not None else "-" for c in found)
        error = errors.get(p.name)
        worst = f"{error.worst:.4g}" if error is not None else "-"
        ninety_nine = error.ratios.quantile(0.99) if error is not None else None
        shown = "-" if ninety_nine is None else _percent(ninety_nine)
        rows.append(("", (p.name, p.kind.value, *cells, worst, shown)))
    head = (
        "property",
        "kind",
        *(f"{level}: bytes an event (told)" for level in levels),
        "largest error",
        "p99 of bound",
    )
    return _table(head, rows)


def _rejects(report: TopicReport) -> str:
    if not report.rejects:
        return ""
    rows = [("", (f"{one.file}:{one.line}", one.reason, one.text)) for one in report.rejects[:20]]
    return f"<h3>Lines that are no events</h3>{_table(('where', 'why', 'text'), rows)}"


def _table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f'<tr class="{mark}">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for mark, cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _micros(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e6 * seconds:.0f} \N{MICRO SIGN}s"
