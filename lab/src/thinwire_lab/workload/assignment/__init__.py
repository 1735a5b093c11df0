"""Which broker serves which subscriber: by place, by interest, or by both, and what each choice costs."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.workload.assignment.assignment_costs import QUANTILES, Burden, Costs, burden, costs
    from thinwire_lab.workload.assignment.assignment_costs_demands import (
        Demands,
        Population,
        demands,
        names_of,
        nearest,
    )
    from thinwire_lab.workload.assignment.broker_assignment import by_interest, by_place, jointly
    from thinwire_lab.workload.assignment.broker_assignment_policies import LIMITS, Policy, policies
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "assignment_costs": "Burden Costs QUANTILES burden costs",
            "assignment_costs_demands": "Demands Population demands names_of nearest",
            "broker_assignment": "by_interest by_place jointly",
            "broker_assignment_policies": "LIMITS Policy policies",
        },
    )

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
