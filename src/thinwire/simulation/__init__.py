"""Networks and their clockwork: what a link lets through, when bytes arrive, and a world whose time is a number."""

from thinwire.simulation.kernel import Kernel
from thinwire.simulation.lane import Lane, lanes
from thinwire.simulation.limits import FREE, Limit, Limits, read_limits
from thinwire.simulation.parties import Receiver, Relay, Sender, Weights
from thinwire.simulation.station import Station

__all__ = [
    "FREE",
    "Kernel",
    "Lane",
    "Limit",
    "Limits",
    "Receiver",
    "Relay",
    "Sender",
    "Station",
    "Weights",
    "lanes",
    "read_limits",
]
