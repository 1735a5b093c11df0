"""The whole system on one machine, for people to watch: every part a process of its own, every event checked."""

from thinwire.evaluation.demo.plants import PLANTS, rehearse
from thinwire.evaluation.demo.seats import Phase, Seat, View
from thinwire.evaluation.demo.show import MAX_RATE, TOLERANCES, Show

__all__ = ["MAX_RATE", "PLANTS", "TOLERANCES", "Phase", "Seat", "Show", "View", "rehearse"]
