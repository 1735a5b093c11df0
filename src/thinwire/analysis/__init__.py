"""Evaluation of publishing strategies on recorded events: bytes, errors and CPU time. Without Spark."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.analysis.analysis_run import AnalysisRequest, analyze_files, analyze_sorted
    from thinwire.analysis.event_files import Reject, Rejects
    from thinwire.analysis.report import AnalysisReport
    from thinwire.analysis.report_page import render_page
    from thinwire.analysis.strategies import EXACT, AnalysisOutcome, Level, Strategy, grid
    from thinwire.analysis.strategy_choice import Goal, RatedStrategy
    from thinwire.analysis.strategy_evaluation import evaluate
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "analysis_run": "AnalysisRequest analyze_files analyze_sorted",
            "event_files": "Reject Rejects",
            "report": "AnalysisReport",
            "report_page": "render_page",
            "strategies": "AnalysisOutcome EXACT Level Strategy grid",
            "strategy_choice": "Goal RatedStrategy",
            "strategy_evaluation": "evaluate",
        },
    )

__all__ = [
    "EXACT",
    "AnalysisOutcome",
    "AnalysisReport",
    "AnalysisRequest",
    "Goal",
    "Level",
    "RatedStrategy",
    "Reject",
    "Rejects",
    "Strategy",
    "analyze_files",
    "analyze_sorted",
    "evaluate",
    "grid",
    "render_page",
]
