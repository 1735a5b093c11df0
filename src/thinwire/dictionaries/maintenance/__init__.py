"""Looking after dictionaries: when to keep, prolong or replace the one of a topic. One way, one file."""

from thinwire.dictionaries.maintenance.adaptive import Adaptive
from thinwire.dictionaries.maintenance.cost_based import CostBased
from thinwire.dictionaries.maintenance.fixed_rate import FixedRate
from thinwire.dictionaries.maintenance.policy import Keep, Policy, Prolong, Proposal, Replace, Why
from thinwire.dictionaries.maintenance.predict import Predict
from thinwire.dictionaries.maintenance.single import SingleDict

__all__ = [
    "Adaptive",
    "CostBased",
    "FixedRate",
    "Keep",
    "Policy",
    "Predict",
    "Prolong",
    "Proposal",
    "Replace",
    "SingleDict",
    "Why",
]
