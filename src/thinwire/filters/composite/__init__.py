"""Composite subscriptions: expressions over quantities of several topics, and how they are watched."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.filters.composite.condition import Condition
    from thinwire.filters.composite.condition_predicates import Predicate, Quantity, Radius
    from thinwire.filters.composite.condition_resolver import resolve, ticks_of
    from thinwire.filters.composite.expression import And, Expression, Formula, Or, Term, Threshold
    from thinwire.filters.composite.expression_parser import parse
    from thinwire.filters.composite.feed_sequencer import Position
    from thinwire.filters.composite.feed_sequencer_order import Delivery, Entry, Feed, Order, Reading
    from thinwire.filters.composite.feed_sequencer_sequencing import Sequencer
    from thinwire.filters.composite.watch_evaluator import Evaluator
    from thinwire.filters.composite.watch_evaluator_watch import Watch
    from thinwire.filters.composite.watch_messages import from_document, to_document
    from thinwire.filters.composite.watch_messages_messages import Message, WatchState
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "condition": "Condition",
            "condition_predicates": "Predicate Quantity Radius",
            "condition_resolver": "resolve ticks_of",
            "expression": "And Expression Formula Or Term Threshold",
            "expression_parser": "parse",
            "feed_sequencer": "Position",
            "feed_sequencer_order": "Delivery Entry Feed Order Reading",
            "feed_sequencer_sequencing": "Sequencer",
            "watch_evaluator": "Evaluator",
            "watch_evaluator_watch": "Watch",
            "watch_messages": "from_document to_document",
            "watch_messages_messages": "Message WatchState",
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
