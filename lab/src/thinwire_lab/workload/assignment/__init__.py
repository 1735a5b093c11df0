"""Assignment of subscribers to brokers by proximity, by interest, or by both, and its costs."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.workload.assignment.assignment_costs import (
        QUANTILES,
        AssignmentCosts,
        AssignmentPopulation,
        BrokerLoad,
        GroupDemands,
        broker_load,
        compute_costs,
        group_keys,
        group_subscriptions,
        nearest_brokers,
    )
    from thinwire_lab.workload.assignment.broker_assignment import (
        LIMITS,
        Policy,
        assign_by_interest,
        assign_by_proximity,
        assign_jointly,
        policies,
    )
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "assignment_costs": "AssignmentCosts AssignmentPopulation BrokerLoad GroupDemands QUANTILES "
            "compute_costs broker_load group_keys group_subscriptions nearest_brokers",
            "broker_assignment": "LIMITS Policy assign_by_interest assign_by_proximity assign_jointly policies",
        },
    )

__all__ = [
    "LIMITS",
    "QUANTILES",
    "AssignmentCosts",
    "AssignmentPopulation",
    "BrokerLoad",
    "GroupDemands",
    "Policy",
    "assign_by_interest",
    "assign_by_proximity",
    "assign_jointly",
    "broker_load",
    "compute_costs",
    "group_keys",
    "group_subscriptions",
    "nearest_brokers",
    "policies",
]
