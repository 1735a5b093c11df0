"""Conformance: subscribers say how far their copy of a value may be off, and are told only when it would be further.

Schemes need compiled kernels, which cost half a second to load: who only reads an expression does not pay for them.
"""

from typing import TYPE_CHECKING

from thinwire.conformance.clamp import Clamped
from thinwire.conformance.costs import Cost, costs
from thinwire.conformance.greedy import greedy, within
from thinwire.conformance.passage import Passage
from thinwire.contents import contents

if TYPE_CHECKING:
    from thinwire.conformance.index import IntervalIndex
    from thinwire.conformance.mcf import Cooperative
    from thinwire.conformance.mfd import Decomposed
    from thinwire.conformance.optimum import global_optimum
    from thinwire.conformance.single import SingleLevel
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "index": "IntervalIndex",
            "mcf": "Cooperative",
            "mfd": "Decomposed",
            "optimum": "global_optimum",
            "single": "SingleLevel",
        },
    )

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
