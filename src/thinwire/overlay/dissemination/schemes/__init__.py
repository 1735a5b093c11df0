"""The schemes, each in a file of its own: who must see an event, and who tells them."""

from thinwire.overlay.dissemination.schemes import cooperative, decomposed, indexed, safe_region, single
from thinwire.overlay.dissemination.traffic import Scheme

__all__ = ["SCHEMES"]

SCHEMES: dict[str, Scheme] = {
    "SF": single.traffic,
    "MFD": decomposed.traffic,
    "MCF": cooperative.traffic,
    "SRT": safe_region.traffic,
    "SRI": indexed.traffic,
}
"""all but MFD deliver exactly what OnlineGreedy does; MFD may deliver more"""
