"""Dissemination on Chord: what it costs to keep every subscriber within its threshold, scheme by scheme.

>>> from thinwire.workload.samples import market
>>> found = simulate(100, {"AAA": market.closes()}, 600)
>>> list(found)
['SF', 'MFD', 'MCF', 'SRT', 'SRI']
>>> found["SRI"].maintenance == min(costs.maintenance for costs in found.values())
True
"""

from thinwire.overlay.dissemination.churn import ChurnCosts, churn
from thinwire.overlay.dissemination.model import PINNED, Model
from thinwire.overlay.dissemination.outcome import Costs
from thinwire.overlay.dissemination.schemes import SCHEMES
from thinwire.overlay.dissemination.simulate import simulate, sites
from thinwire.overlay.dissemination.site import Demands, Site

__all__ = ["PINNED", "SCHEMES", "ChurnCosts", "Costs", "Demands", "Model", "Site", "churn", "simulate", "sites"]
