"""Where topics with processing functions run: latency models, lower bounds and solvers. Its time is simulated."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.placement.hosts_topics import Host, Topic
    from thinwire.placement.latency_model_models import LatencyModel, Rising, fit_rising
    from thinwire.placement.planner_placing import Plan, Seat, propose, tightened
    from thinwire.placement.planner_splitting import Split, split
    from thinwire.placement.queue_simulator import Latency, simulate
    from thinwire.placement.queue_simulator_samples import Run, random_runs
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "hosts_topics": "Host Topic",
            "latency_model_models": "LatencyModel Rising fit_rising",
            "planner_placing": "Plan Seat propose tightened",
            "planner_splitting": "Split split",
            "queue_simulator": "Latency simulate",
            "queue_simulator_samples": "Run random_runs",
        },
    )

__all__ = [
    "Host",
    "Latency",
    "LatencyModel",
    "Plan",
    "Rising",
    "Run",
    "Seat",
    "Split",
    "Topic",
    "fit_rising",
    "propose",
    "random_runs",
    "simulate",
    "split",
    "tightened",
]
