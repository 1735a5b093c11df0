"""Placement of topics on edge hosts within latency limits: latency models, lower bounds and solvers. No I/O."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.placement.hosts import Host, TopicLoad
    from thinwire.placement.latency_model import LatencyModel, MonotoneModel
    from thinwire.placement.planner import HostAssignment, PlacementPlan, TopicSplit, propose, split, tightened
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "hosts": "Host TopicLoad",
            "latency_model": "LatencyModel MonotoneModel",
            "planner": "HostAssignment PlacementPlan TopicSplit propose split tightened",
        },
    )

__all__ = [
    "Host",
    "HostAssignment",
    "LatencyModel",
    "MonotoneModel",
    "PlacementPlan",
    "TopicLoad",
    "TopicSplit",
    "propose",
    "split",
    "tightened",
]
