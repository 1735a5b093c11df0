"""The interval index with the publisher: only processors whose thresholds fire are told."""

from __future__ import annotations

import numpy as np

from thinwire.overlay.chord.ring import Numbers
from thinwire.overlay.chord.routes import hops
from thinwire.overlay.dissemination.contacts import grouped
from thinwire.overlay.dissemination.schemes.fired import counts, fired
from thinwire.overlay.dissemination.site import Site
from thinwire.overlay.dissemination.traffic import Traffic, directly, no_replies


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
