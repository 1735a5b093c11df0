"""Where topics with processing functions run: latency models, lower bounds and solvers. Its time is simulated."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.placement.hosts import Host, Topic
    from thinwire.placement.latency_model import LatencyModel, Rising, fit_rising
    from thinwire.placement.planner import Plan, Seat, Split, propose, split, tightened
    from thinwire.placement.queue_simulator import Latency, Run, random_runs, simulate
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "hosts": "Host Topic",
            "latency_model": "LatencyModel Rising fit_rising",
            "planner": "Plan Seat Split propose split tightened",
            "queue_simulator": "Latency Run random_runs simulate",
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
