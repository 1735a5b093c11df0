"""The report of an analysis: its values as a table, as a JSON document, and as a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from thinwire.analysis.event_files import Reject
from thinwire.analysis.json_baseline import Baseline
from thinwire.analysis.property_cost import PropertyCost, TrainingSummary
from thinwire.analysis.strategy_choice import RatedStrategy, pareto_front
from thinwire.topics.topic_plan import Plan, TopicPlan
from thinwire.topics.topic_settings import Settings


@dataclass(frozen=True)
class AnalysisReport:
    """The result of an analysis.

    training: the results of the training part; share: share of the events that form the training part
    strategies: the measurements of the held-out part; chosen: the strategy of the plan
    baselines: the same events as JSON, for comparison; properties: costs of properties
    rejected: number of lines and rows that could not be analysed; rejects: the first ones as examples
    command: the command line; created: date and time of the analysis; version: version of thinwire
    notes: limitations of the results besides those of every analysis
    """

    topic: str
    training: TrainingSummary
    strategies: Sequence[RatedStrategy]
    chosen: RatedStrategy
    baselines: Sequence[Baseline]
    properties: Sequence[PropertyCost] = ()
    rejected: int = 0
    rejects: Sequence[Reject] = ()
    share: float = 0.5
    command: str = ""
    created: str = ""
    version: str = ""
    notes: Sequence[str] = ()

    @property
    def front(self) -> list[RatedStrategy]:
        return pareto_front(self.strategies)

    @property
    def by_saving(self) -> list[RatedStrategy]:
        return sorted(self.strategies, key=lambda rated: -rated.link_saving)

    @property
    def is_guarantee_met(self) -> bool:
        """Whether every event was delivered within its bound by every strategy."""
        return all(rated.outcome.is_guarantee_met for rated in self.strategies)

    @property
    def sentence(self) -> str:
        chosen, strategy = self.chosen, self.chosen.outcome.strategy
        within = "exactly" if strategy.level.name == "exact" else f"within {strategy.level.name}"
        result = "every event is delivered" if chosen.outcome.is_guarantee_met else "the bounds were EXCEEDED"
        return (
            f"{self.topic}: {percent(chosen.link_saving)} fewer bytes on the wire than JSON with one message per event "
            f"({percent(chosen.batched_saving)} fewer than JSON in batches, "
            f"{percent(chosen.packed_saving)} fewer than deflated batches); "
            f"{result} {within}: {strategy.name}."
        )

    def to_document(self) -> dict[str, Any]:
        front = {rated.name for rated in self.front}
        strategies = [
            {**_strategy_document(rated), "front": rated.name in front, "chosen": rated is self.chosen}
            for rated in self.by_saving
        ]
        return {
            "topic": self.topic,
            "sentence": self.sentence,
            "learnt_from": self.training.events,
            "held_out": self.chosen.outcome.events,
            "rejected": self.rejected,
            "rejects": [reject._asdict() for reject in self.rejects],
            "strategies": strategies,
        }

    def to_plan(self) -> Plan:
        chosen, strategy, schema = self.chosen, self.chosen.outcome.strategy, self.training.schema
        settings = Settings(
            retain=True,
            format=strategy.format,
            predictor=strategy.predictor,
            key_frame_interval=strategy.key_frame_interval,
            max_silence=strategy.max_silence,
            tolerance=strategy.level.tolerances(schema, self.training.ranges),
            dictionaries=strategy.packing != "none",
        )
        expected = {name: round(getattr(chosen, name), 4) for name in ("frame_saving", "link_saving", "batched_saving")}
        expected["error"] = float(f"{chosen.error:.4g}")
        plan = TopicPlan(schema, settings, strategy.linger, strategy.max_batch, expected)
        return Plan({self.topic: plan}, self.command)


def percent(share: float) -> str:
    """Format a share.

    >>> percent(0.12345)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"


def microseconds(seconds: float | None) -> str:
    """Format CPU seconds.

    >>> microseconds(2e-6), microseconds(None)
    ('2 us', '-')
    """
    return "-" if seconds is None else f"{1e6 * seconds:.0f} us"


class ReportColumn(NamedTuple):
    """A column of the table of strategies, and the function that returns the text of a cell.

    in_terminal: whether the terminal shows the column; the HTML page shows all columns
    """

    title: str
    in_terminal: bool
    cell: Callable[[RatedStrategy], str]


COLUMNS = (
    ReportColumn("strategy", True, lambda r: r.name + ("" if r.outcome.is_guarantee_met else " (bound exceeded)")),
    ReportColumn("wire saved", True, lambda r: percent(r.link_saving)),
    ReportColumn("vs batches", True, lambda r: percent(r.batched_saving)),
    ReportColumn("vs deflated", True, lambda r: percent(r.packed_saving)),
    ReportColumn("frames saved", True, lambda r: percent(r.frame_saving)),
    ReportColumn("frame bytes per event", False, lambda r: f"{r.outcome.total.frame / max(1, r.outcome.events):.2f}"),
    ReportColumn("wire bytes per event", False, lambda r: f"{r.outcome.total.link / max(1, r.outcome.events):.1f}"),
    ReportColumn("messages", False, lambda r: f"{r.outcome.total.messages:,}"),
    ReportColumn("suppressed", False, lambda r: percent(r.outcome.suppressed_events / max(1, r.outcome.events))),
    ReportColumn("error", True, lambda r: f"{100 * r.error:.3g} %"),
    ReportColumn("of its bound", False, lambda r: percent(r.outcome.worst_ratio)),
    ReportColumn("publish", True, lambda r: microseconds(r.outcome.publish_cpu)),
    ReportColumn("receive", True, lambda r: microseconds(r.outcome.receive_cpu)),
)
"""columns of the table of strategies"""


_RATINGS = ("link_saving", "batched_saving", "packed_saving", "frame_saving", "error")


def _strategy_document(rated: RatedStrategy) -> dict[str, Any]:
    outcome, total = rated.outcome, rated.outcome.total
    return {
        "strategy": rated.name,
        **{name: getattr(rated, name) for name in _RATINGS},
        "kept": outcome.is_guarantee_met,
        "frame_bytes": total.frame,
        "link_bytes": total.link,
        "messages": total.messages,
        "publish_cpu": outcome.publish_cpu,
        "receive_cpu": outcome.receive_cpu,
    }
