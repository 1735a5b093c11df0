"""Composite subscriptions (watches): conditions over quantities of several topics."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.filters.composite.condition import Condition, Predicate, Quantity, Radius
    from thinwire.filters.composite.condition_resolver import resolve, ticks_of
    from thinwire.filters.composite.expression import And, Expression, Formula, Or, Term, Threshold
    from thinwire.filters.composite.feed_sequencer import (
        Delivery,
        EventReadings,
        FeedPosition,
        LogEntry,
        Order,
        Sequencer,
        WatchInput,
    )
    from thinwire.filters.composite.watch_evaluator import Evaluator, WatchEvaluator
    from thinwire.filters.composite.watch_grammar import parse
    from thinwire.filters.composite.watch_messages import WatchMessage, WatchState, from_document, to_document
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "condition": "Condition Predicate Quantity Radius",
            "condition_resolver": "resolve ticks_of",
            "expression": "And Expression Formula Or Term Threshold",
            "feed_sequencer": "Delivery EventReadings FeedPosition LogEntry Order Sequencer WatchInput",
            "watch_evaluator": "Evaluator WatchEvaluator",
            "watch_grammar": "parse",
            "watch_messages": "WatchMessage WatchState from_document to_document",
        },
    )

__all__ = [
    "And",
    "Condition",
    "Delivery",
    "Evaluator",
    "EventReadings",
    "Expression",
    "FeedPosition",
    "Formula",
    "LogEntry",
    "Or",
    "Order",
    "Predicate",
    "Quantity",
    "Radius",
    "Sequencer",
    "Term",
    "Threshold",
    "WatchEvaluator",
    "WatchInput",
    "WatchMessage",
    "WatchState",
    "from_document",
    "parse",
    "resolve",
    "ticks_of",
    "to_document",
]
