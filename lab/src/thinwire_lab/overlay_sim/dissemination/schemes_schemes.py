"""The schemes, each in a file of its own: who must see an event, and who tells them."""

from thinwire_lab.overlay_sim.dissemination import schemes as cooperative
from thinwire_lab.overlay_sim.dissemination import schemes_decomposed as decomposed
from thinwire_lab.overlay_sim.dissemination import schemes_indexed as indexed
from thinwire_lab.overlay_sim.dissemination import schemes_safe_region as safe_region
from thinwire_lab.overlay_sim.dissemination import schemes_single as single
from thinwire_lab.overlay_sim.dissemination.site_traffic_traffic import Scheme

__all__ = ["SCHEMES"]

SCHEMES: dict[str, Scheme] = {
    "SF": single.traffic,
    "MFD": decomposed.traffic,
    "MCF": cooperative.traffic,
    "SRT": safe_region.traffic,
    "SRI": indexed.traffic,
}
"""all but MFD deliver exactly what OnlineGreedy does; MFD may deliver more"""
