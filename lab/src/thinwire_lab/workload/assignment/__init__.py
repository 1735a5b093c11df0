"""Which broker serves which subscriber: by place, by interest, or by both, and what each choice costs."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.workload.assignment.assignment_costs import (
        QUANTILES,
        AssignmentCosts,
        AssignmentPopulation,
        Burden,
        GroupDemands,
        burden,
        costs,
        demands,
        names_of,
        nearest,
    )
    from thinwire_lab.workload.assignment.broker_assignment import (
        LIMITS,
        Policy,
        by_interest,
        by_place,
        jointly,
        policies,
    )
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "assignment_costs": "AssignmentCosts AssignmentPopulation Burden GroupDemands QUANTILES "
            "burden costs demands names_of nearest",
            "broker_assignment": "LIMITS Policy by_interest by_place jointly policies",
        },
    )

__all__ = [
    "LIMITS",
    "QUANTILES",
    "AssignmentCosts",
    "AssignmentPopulation",
    "Burden",
    "GroupDemands",
    "Policy",
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
