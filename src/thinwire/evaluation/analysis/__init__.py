"""The dry run: what each way to publish would save on recorded events, and what error it would make. No Spark here."""

from thinwire.evaluation.analysis.baseline import Baseline, merge_baselines, weigh
from thinwire.evaluation.analysis.choosing import Goal, Judged, choose, judge, pareto
from thinwire.evaluation.analysis.evaluating import evaluate, evaluate_together
from thinwire.evaluation.analysis.in_process import in_process
from thinwire.evaluation.analysis.learning import Learned, merge_ranges, ranges_of
from thinwire.evaluation.analysis.outcome import Bytes, Outcome, merge
from thinwire.evaluation.analysis.page import render
from thinwire.evaluation.analysis.properties import PropertyCost, study
from thinwire.evaluation.analysis.reading import Read, Reject, Rejects, kind_of, read_events
from thinwire.evaluation.analysis.report import Report, TopicReport, plan_of
from thinwire.evaluation.analysis.rows import batch_of, events_of
from thinwire.evaluation.analysis.staged import CHUNK, Wanted, one_by_one, staged
from thinwire.evaluation.analysis.strategy import EXACT, LEVELS, LINGERS, Level, Strategy, grid, same_frames
from thinwire.evaluation.analysis.times import EventClock

__all__ = [
    "CHUNK",
    "EXACT",
    "LEVELS",
    "LINGERS",
    "Baseline",
    "Bytes",
    "EventClock",
    "Goal",
    "Judged",
    "Learned",
    "Level",
    "Outcome",
    "PropertyCost",
    "Read",
    "Reject",
    "Rejects",
    "Report",
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
