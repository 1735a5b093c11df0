"""Composite subscriptions: expressions over quantities of several topics, and how they are watched."""

from typing import TYPE_CHECKING

from thinwire.conformance.composite.conditions import Condition
from thinwire.conformance.composite.documents import from_document, to_document
from thinwire.conformance.composite.evaluator import Evaluator
from thinwire.conformance.composite.expressions import And, Expression, Formula, Or, Term, Threshold
from thinwire.conformance.composite.feeds import Position
from thinwire.conformance.composite.messages import Message, WatchState
from thinwire.conformance.composite.order import Delivery, Entry, Feed, Order, Reading
from thinwire.conformance.composite.parsing import parse
from thinwire.conformance.composite.predicates import Predicate, Quantity, Radius
from thinwire.conformance.composite.resolving import resolve, ticks_of
from thinwire.conformance.composite.schemes import (
    CARRIED,
    CHAINING,
    FANNING,
    HYBRID,
    SCHEMES,
    WATCHED,
    Dissemination,
    Scheme,
    Traffic,
)
from thinwire.conformance.composite.sequencing import Sequencer
from thinwire.conformance.composite.strength import ChangeRate
from thinwire.conformance.composite.table import WatchTable
from thinwire.conformance.composite.watch import Watch
from thinwire.contents import contents

if TYPE_CHECKING:
    from thinwire.conformance.composite.conjunctions import (
        ConjunctionCosts,
        Conjunctions,
        composite_costs,
        conjunction_costs,
    )
else:
    __getattr__, __dir__ = contents(
        __name__, {"conjunctions": "ConjunctionCosts Conjunctions composite_costs conjunction_costs"}
    )

__all__ = [
    "CARRIED",
    "CHAINING",
    "FANNING",
    "HYBRID",
    "SCHEMES",
    "WATCHED",
    "And",
    "ChangeRate",
    "Condition",
    "ConjunctionCosts",
    "Conjunctions",
    "Delivery",
    "Dissemination",
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
    "Scheme",
    "Sequencer",
    "Term",
    "Threshold",
    "Traffic",
    "Watch",
    "WatchState",
    "WatchTable",
    "composite_costs",
    "conjunction_costs",
    "from_document",
    "parse",
    "resolve",
    "ticks_of",
    "to_document",
]
