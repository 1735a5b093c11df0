"""Where topics with processing functions run: latency models, lower bounds and solvers. Its time is simulated."""

from thinwire.placement.models import LatencyModel, Rising, fit_rising
from thinwire.placement.placing import Plan, Seat, propose, tightened
from thinwire.placement.queues import Latency, simulate
from thinwire.placement.samples import Run, random_runs
from thinwire.placement.splitting import Split, split
from thinwire.placement.topics import Host, Topic

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
