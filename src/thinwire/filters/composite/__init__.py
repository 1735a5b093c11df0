"""Composite subscriptions (watches): conditions over quantities of several topics."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.filters.composite.condition_resolver import resolve
    from thinwire.filters.composite.feed_sequencer import EventReadings, LogEntry, Order, WatchInput
    from thinwire.filters.composite.watch_evaluator import Evaluator, WatchEvaluator
    from thinwire.filters.composite.watch_messages import WatchState
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "condition_resolver": "resolve",
            "feed_sequencer": "EventReadings LogEntry Order WatchInput",
            "watch_evaluator": "Evaluator WatchEvaluator",
            "watch_messages": "WatchState",
        },
    )

__all__ = ["Evaluator", "EventReadings", "LogEntry", "Order", "WatchEvaluator", "WatchInput", "WatchState", "resolve"]
