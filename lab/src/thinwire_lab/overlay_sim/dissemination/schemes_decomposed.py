"""Multi-level filter decomposition: events go to the first filters and down every path as far as filters pass them."""

from __future__ import annotations

import numpy as np

from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.dissemination.schemes_fired import counts
from thinwire_lab.overlay_sim.dissemination.site_traffic import Contacts, grouped, joined, repeated
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Site
from thinwire_lab.overlay_sim.dissemination.site_traffic_traffic import Traffic, kept_by_processors, no_replies
from thinwire_lab.overlay_sim.filters.published_filters_mfd import Decomposed


def traffic(site: Site, values: Numbers) -> Traffic:
    """A filter that passes a value on sends it to all filters below it; those of one node send together."""
    scheme = Decomposed(site.thresholds, int(values[0]), site.model.base)
    passage = scheme.run(values[1:])
    places = _places(site, scheme.parents)
    firsts = repeated([(0, places[scheme.parents < 0], len(values) - 1)])
    onward = _onward(site, scheme, places, passage.passed_at, np.searchsorted(scheme.names, passage.passed))
    chains = _chains(scheme.parents, places)
    return Traffic(
        joined([firsts, onward]),
        no_replies(site),
        counts(site, passage.thresholds),
        [chains[n] for n in np.searchsorted(scheme.names, site.thresholds)],
        kept_by_processors(site, places),
        int(sum(site.hops[places[parent] + 1, places[n]] for n, parent in enumerate(scheme.parents) if parent >= 0)),
    )


def _onward(site: Site, scheme: Decomposed, places: Numbers, at: Numbers, passed: Numbers) -> Contacts:
    """From each filter that passed a value to all below it."""
    order = np.argsort(scheme.parents, kind="stable")
    below = np.searchsorted(scheme.parents[order], np.arange(len(places) + 1))
    sizes = np.diff(below)[passed]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    children = order[np.repeat(below[passed], sizes) + within]
    senders = places[np.repeat(passed, sizes)] + 1
    return grouped(np.repeat(at, sizes) * (len(site.processors) + 1) + senders, senders, places[children])


def _places(site: Site, parents: Numbers) -> Numbers:
    """Filters are dealt out level by level, each level by threshold."""
    levels = np.zeros(len(parents), dtype=np.int64)
    for n, parent in enumerate(parents):
        levels[n] = levels[parent] + 1 if parent >= 0 else 0
    places = np.empty(len(parents), dtype=np.int64)
    places[np.argsort(levels, kind="stable")] = site.dealt(len(parents))
    return places


def _chains(parents: Numbers, places: Numbers) -> list[tuple[int, ...]]:
    """The way down to each filter; parents stand for smaller thresholds, so they come first."""
    chains: list[tuple[int, ...]] = []
    for parent, place in zip(parents.tolist(), places.tolist(), strict=True):
        chains.append((*chains[parent], place) if parent >= 0 else (place,))
    return chains
