"""The whole system on one machine, for people to watch: every part a process of its own, every event checked."""

from thinwire.evaluation.demo.channels import Channel, Translating
from thinwire.evaluation.demo.guests import GUESTS, Guest
from thinwire.evaluation.demo.landings import Landing
from thinwire.evaluation.demo.plants import PLANTS, rehearse
from thinwire.evaluation.demo.seats import Phase, Seat
from thinwire.evaluation.demo.show import MAX_RATE, Show
from thinwire.evaluation.demo.views import View

__all__ = [
    "GUESTS",
    "MAX_RATE",
    "PLANTS",
    "Channel",
    "Guest",
    "Landing",
    "Phase",
    "Seat",
    "Show",
    "Translating",
    "View",
    "rehearse",
]
