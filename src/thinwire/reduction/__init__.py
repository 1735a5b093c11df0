"""Reduce events to what must travel, and expand them again: two ends kept in lock-step."""

from thinwire.reduction.demand import Demand
from thinwire.reduction.expander import Expander
from thinwire.reduction.reducer import Introduction, Reducer
from thinwire.reduction.resolving import resolve
from thinwire.reduction.rules import Rule, RuleSet

__all__ = ["Demand", "Expander", "Introduction", "Reducer", "Rule", "RuleSet", "resolve"]
