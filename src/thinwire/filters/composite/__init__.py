"""Composite subscriptions: expressions over quantities of several topics, and how they are watched."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.filters.composite.condition import Condition, Predicate, Quantity, Radius
    from thinwire.filters.composite.condition_resolver import resolve, ticks_of
    from thinwire.filters.composite.expression import And, Expression, Formula, Or, Term, Threshold
    from thinwire.filters.composite.expression_parser import parse
    from thinwire.filters.composite.feed_sequencer import Delivery, Entry, Feed, Order, Position, Reading, Sequencer
    from thinwire.filters.composite.watch_evaluator import Evaluator, Watch
    from thinwire.filters.composite.watch_messages import Message, WatchState, from_document, to_document
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "condition": "Condition Predicate Quantity Radius",
            "condition_resolver": "resolve ticks_of",
            "expression": "And Expression Formula Or Term Threshold",
            "expression_parser": "parse",
            "feed_sequencer": "Delivery Entry Feed Order Position Reading Sequencer",
            "watch_evaluator": "Evaluator Watch",
            "watch_messages": "Message WatchState from_document to_document",
        },
    )

__all__ = [
    "And",
    "Condition",
    "Delivery",
    "Entry",
    "Evaluator",
    "Expression",
    "Feed",
    "Formula",
    "Message",
    "Or",
    "Order",
    "Position",
    "Predicate",
    "Quantity",
    "Radius",
    "Reading",
    "Sequencer",
    "Term",
    "Threshold",
    "Watch",
    "WatchState",
    "from_document",
    "parse",
    "resolve",
    "ticks_of",
    "to_document",
]
