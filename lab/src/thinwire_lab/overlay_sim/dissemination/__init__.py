"""Dissemination on Chord: the cost of keeping every subscriber within its threshold, by scheme.

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
    from thinwire_lab.overlay_sim.dissemination.cost_model import PINNED, Model, SchemeCosts
    from thinwire_lab.overlay_sim.dissemination.overlay_simulation import ChurnCosts, churn, simulate, sites
    from thinwire_lab.overlay_sim.dissemination.schemes import SCHEMES
    from thinwire_lab.overlay_sim.dissemination.site_traffic import SourceDemands, SourceSite
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "cost_model": "Model PINNED SchemeCosts",
            "overlay_simulation": "ChurnCosts churn simulate sites",
            "schemes": "SCHEMES",
            "site_traffic": "SourceDemands SourceSite",
        },
    )

__all__ = [
    "PINNED",
    "SCHEMES",
    "ChurnCosts",
    "Model",
    "SchemeCosts",
    "SourceDemands",
    "SourceSite",
    "churn",
    "simulate",
    "sites",
]
