"""Single-level filters: every event goes to every processor."""

from __future__ import annotations

import numpy as np

from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.dissemination.schemes_fired import counts, fired
from thinwire_lab.overlay_sim.dissemination.site_traffic import repeated
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Site
from thinwire_lab.overlay_sim.dissemination.site_traffic_traffic import (
    Traffic,
    directly,
    kept_by_processors,
    no_replies,
)


def traffic(site: Site, values: Numbers) -> Traffic:
    """One multicast an event, always the same."""
    return Traffic(
        repeated([(0, np.arange(len(site.processors)), len(values) - 1)]),
        no_replies(site),
        counts(site, fired(site, values)[1]),
        directly(site),
        kept_by_processors(site, site.places),
        0,
    )
