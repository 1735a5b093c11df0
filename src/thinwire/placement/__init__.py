"""Where topics with processing functions run: latency models, lower bounds and solvers. Its time is simulated."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.placement.hosts import Host, TopicLoad
    from thinwire.placement.latency_model import LatencyModel, Rising, fit_rising
    from thinwire.placement.planner import HostAssignment, PlacementPlan, TopicSplit, propose, split, tightened
    from thinwire.placement.queue_simulator import Latency, Run, random_runs, simulate
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "hosts": "Host TopicLoad",
            "latency_model": "LatencyModel Rising fit_rising",
            "planner": "HostAssignment PlacementPlan TopicSplit propose split tightened",
            "queue_simulator": "Latency Run random_runs simulate",
        },
    )

__all__ = [
    "Host",
    "HostAssignment",
    "Latency",
    "LatencyModel",
    "PlacementPlan",
    "Rising",
    "Run",
    "TopicLoad",
    "TopicSplit",
    "fit_rising",
    "propose",
    "random_runs",
    "simulate",
    "split",
    "tightened",
]
