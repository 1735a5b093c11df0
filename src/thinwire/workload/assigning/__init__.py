"""Which broker serves which subscriber: by place, by interest, or by both, and what each choice costs."""

from thinwire.workload.assigning.assignment import by_interest, by_place, jointly
from thinwire.workload.assigning.costs import QUANTILES, Burden, Costs, burden, costs
from thinwire.workload.assigning.demands import Demands, Population, demands, names_of, nearest
from thinwire.workload.assigning.policies import LIMITS, Policy, policies

__all__ = [
    "LIMITS",
    "QUANTILES",
    "Burden",
    "Costs",
    "Demands",
    "Policy",
    "Population",
    "burden",
    "by_interest",
    "by_place",
    "costs",
    "demands",
    "jointly",
    "names_of",
    "nearest",
    "policies",
]
