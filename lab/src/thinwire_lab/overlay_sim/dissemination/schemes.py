"""Multi-level cooperative filters, each chain with an upper filter of its own: the form that misses nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.dissemination.schemes_fired import counts
from thinwire_lab.overlay_sim.dissemination.site_traffic import grouped, joined, repeated
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Site
from thinwire_lab.overlay_sim.dissemination.site_traffic_traffic import Traffic, kept_by_processors, no_replies
from thinwire_lab.overlay_sim.filters.published_filters_mcf import Cooperative


def traffic(site: Site, values: Numbers) -> Traffic:
    """Every event goes to the first level; from there to the thresholds whose upper filter passes it, as one multicast
    a first-level node."""
    scheme = Cooperative(site.thresholds, int(values[0]), site.model.step)
    passage = scheme.run(values[1:])
    firsts = np.array([chain[0] for chain in scheme.chains.values()], dtype=np.int64)
    deep = firsts < site.thresholds
    upper, lower = _places(site, np.array(scheme.first_level), firsts, deep)
    ranks = site.ranks(passage.passed)
    forwarded = deep[ranks]
    at, ranks = passage.passed_at[forwarded], ranks[forwarded]
    onward = grouped(at * (len(site.processors) + 1) + upper[ranks], upper[ranks] + 1, lower[ranks])
    return Traffic(
        joined([repeated([(0, upper, len(values) - 1)]), onward]),
        no_replies(site),
        counts(site, passage.thresholds),
        [(int(a), int(b)) if more else (int(b),) for a, b, more in zip(upper, lower, deep, strict=True)],
        kept_by_processors(site, upper) + kept_by_processors(site, lower[deep]),
        int(site.hops[upper + 1, lower][deep].sum()),
    )


def _places(site: Site, first_level: Numbers, firsts: Numbers, deep: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Where each threshold has its first filter and its last: the first level is dealt out first."""
    dealt = site.dealt(len(first_level) + int(np.count_nonzero(deep)))
    upper = dealt[np.searchsorted(first_level, firsts)]
    lower = upper.copy()
    lower[deep] = dealt[len(first_level) :]
    return upper, lower
