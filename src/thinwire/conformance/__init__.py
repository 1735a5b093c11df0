"""Conformance: subscribers say how far their copy of a value may be off, and are told only when it would be further."""

from thinwire.conformance.clamp import Clamped
from thinwire.conformance.costs import Cost, costs
from thinwire.conformance.greedy import greedy, within
from thinwire.conformance.index import IntervalIndex
from thinwire.conformance.mcf import Cooperative
from thinwire.conformance.mfd import Decomposed
from thinwire.conformance.optimum import global_optimum
from thinwire.conformance.passage import Passage
from thinwire.conformance.single import SingleLevel

__all__ = [
    "Clamped",
    "Cooperative",
    "Cost",
    "Decomposed",
    "IntervalIndex",
    "Passage",
    "SingleLevel",
    "costs",
    "global_optimum",
    "greedy",
    "within",
]
