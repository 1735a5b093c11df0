"""What an analysis found, topic by topic, and the plan that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from thinwire.analysis.event_files_reading import Reject
from thinwire.analysis.json_baseline import Baseline
from thinwire.analysis.property_cost import Learned
from thinwire.analysis.property_cost_properties import PropertyCost
from thinwire.analysis.strategy_choice import Judged, pareto
from thinwire.topics.topic_plan import Plan, TopicPlan
from thinwire.topics.topic_settings_settings import Settings


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
class Report:
    """All topics; `command`: what was run, `made`: when, `version`: of thinwire, `share`: of the training part."""

    topics: Sequence[TopicReport]
    command: str = ""
    made: str = ""
    version: str = ""
    share: float = 0.5
    notes: Sequence[str] = field(default_factory=tuple)


def plan_of(report: Report) -> Plan:
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
