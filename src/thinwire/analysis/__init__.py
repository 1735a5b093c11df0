"""The dry run: what each way to publish would save on recorded events, and what error it would make. No Spark here."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.analysis.analysis_run import CHUNK, Wanted, in_process, one_by_one, staged
    from thinwire.analysis.event_columns import batch_of, events_of
    from thinwire.analysis.event_files import LocatedEvent, Reject, Rejects, kind_of, read_events
    from thinwire.analysis.event_times import EventClock
    from thinwire.analysis.json_baseline import Baseline, merge_baselines, weigh
    from thinwire.analysis.property_cost import Learned, PropertyCost, merge_ranges, ranges_of, study
    from thinwire.analysis.report import AnalysisReport, TopicReport, plan_of, render
    from thinwire.analysis.strategies import (
        EXACT,
        LEVELS,
        LINGERS,
        AnalysisOutcome,
        Bytes,
        Level,
        Strategy,
        grid,
        merge,
        same_frames,
    )
    from thinwire.analysis.strategy_choice import Goal, Judged, choose, judge, pareto
    from thinwire.analysis.strategy_evaluation import evaluate, evaluate_together
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "analysis_run": "CHUNK Wanted in_process one_by_one staged",
            "event_columns": "batch_of events_of",
            "event_files": "LocatedEvent Reject Rejects kind_of read_events",
            "event_times": "EventClock",
            "json_baseline": "Baseline merge_baselines weigh",
            "property_cost": "Learned PropertyCost merge_ranges ranges_of study",
            "report": "AnalysisReport TopicReport plan_of render",
            "strategies": "AnalysisOutcome Bytes EXACT LEVELS LINGERS Level Strategy grid merge same_frames",
            "strategy_choice": "Goal Judged choose judge pareto",
            "strategy_evaluation": "evaluate evaluate_together",
        },
    )

__all__ = [
    "CHUNK",
    "EXACT",
    "LEVELS",
    "LINGERS",
    "AnalysisOutcome",
    "AnalysisReport",
    "Baseline",
    "Bytes",
    "EventClock",
    "Goal",
    "Judged",
    "Learned",
    "Level",
    "LocatedEvent",
    "PropertyCost",
    "Reject",
    "Rejects",
    "Strategy",
    "TopicReport",
    "Wanted",
    "batch_of",
    "choose",
    "evaluate",
    "evaluate_together",
    "events_of",
    "grid",
    "in_process",
    "judge",
    "kind_of",
    "merge",
    "merge_baselines",
    "merge_ranges",
    "one_by_one",
    "pareto",
    "plan_of",
    "ranges_of",
    "read_events",
    "render",
    "same_frames",
    "staged",
    "study",
    "weigh",
]
