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
    from thinwire_lab.overlay_sim.dissemination.cost_model import PINNED, Model
    from thinwire_lab.overlay_sim.dissemination.cost_model_outcome import Costs
    from thinwire_lab.overlay_sim.dissemination.overlay_simulation import ChurnCosts, churn
    from thinwire_lab.overlay_sim.dissemination.overlay_simulation_simulate import simulate, sites
    from thinwire_lab.overlay_sim.dissemination.schemes_schemes import SCHEMES
    from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Demands, Site
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "cost_model": "Model PINNED",
            "cost_model_outcome": "Costs",
            "overlay_simulation": "ChurnCosts churn",
            "overlay_simulation_simulate": "simulate sites",
            "schemes_schemes": "SCHEMES",
            "site_traffic_site": "Demands Site",
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
