"""The interval index with the publisher: only processors whose thresholds fire are told."""

from __future__ import annotations

import numpy as np

from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.chord.ring_routes import hops
from thinwire_lab.overlay_sim.dissemination.schemes_fired import counts, fired
from thinwire_lab.overlay_sim.dissemination.site_traffic import grouped
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Site
from thinwire_lab.overlay_sim.dissemination.site_traffic_traffic import Traffic, directly, no_replies


def traffic(site: Site, values: Numbers) -> Traffic:
    """One multicast an event that fires something.

    OnlineGreedy decides by the values alone, so nobody need answer, and processors keep nothing but subscribers.
    """
    events, thresholds = fired(site, values)
    entries = no_replies(site)
    entries[0] = len(site.thresholds)
    return Traffic(
        grouped(events, np.zeros_like(events), site.places[site.ranks(thresholds)]),
        no_replies(site),
        counts(site, thresholds),
        directly(site),
        entries,
        int(hops(site.ring, site.processors[site.places], site.publisher).sum()),
    )
