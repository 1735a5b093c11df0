"""What exact schemes deliver: event by event the thresholds that fire."""

from __future__ import annotations

import numpy as np

from thinwire.filters import IntervalIndex
from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Site


def fired(site: Site, values: Numbers) -> tuple[Numbers, Numbers]:
    """Places of events and the thresholds they fire, from the second value on; all are centred at the first."""
    return IntervalIndex(site.thresholds, int(values[0])).offer_many(values[1:])


def counts(site: Site, thresholds: Numbers) -> Numbers:
    """How often each threshold of the source is named."""
    return np.bincount(site.ranks(thresholds), minlength=len(site.thresholds)).astype(np.int64)
