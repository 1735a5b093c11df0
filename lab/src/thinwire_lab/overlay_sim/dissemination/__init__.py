"""Dissemination on Chord: what it costs to keep every subscriber within its threshold, scheme by scheme.

>>> from thinwire_lab.workload.samples import market
>>> found = simulate(100, {"AAA": market.closes()}, 600)
>>> list(found)
['SF', 'MFD', 'MCF', 'SRT', 'SRI']
>>> found["SRI"].maintenance == min(costs.maintenance for costs in found.values())
True
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.overlay_sim.dissemination.cost_model import PINNED, Costs, Model
    from thinwire_lab.overlay_sim.dissemination.overlay_simulation import ChurnCosts, churn, simulate, sites
    from thinwire_lab.overlay_sim.dissemination.schemes import SCHEMES
    from thinwire_lab.overlay_sim.dissemination.site_traffic import Demands, Site
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "cost_model": "Costs Model PINNED",
            "overlay_simulation": "ChurnCosts churn simulate sites",
            "schemes": "SCHEMES",
            "site_traffic": "Demands Site",
        },
    )

__all__ = [
    "PINNED",
    "SCHEMES",
    "ChurnCosts",
    "Costs",
    "Demands",
    "Model",
    "Site",
    "churn",
    "simulate",
    "sites",
]
