"""Dissemination schemes: the messages of each event.

SF, single-level filters: every event goes to every processor.
MFD, multi-level filter decomposition: events go to the first filters and down every path as far as filters pass them.
MCF, multi-level cooperative filters, each chain with its own upper filter: the variant that misses no delivery.
SRT, safe-region tree over the processors: an event goes down to the thresholds that fire, and an advert comes back up.
    Between events the tree is idle, so an event visits exactly the nodes with a firing threshold below them.
    `thinwire_lab.overlay_sim.safe_region` simulates it with messages in flight.
SRI, interval index at the publisher: events go only to processors whose thresholds fire.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thinwire_lab.overlay_sim.chord.ring import Numbers, hops
from thinwire_lab.overlay_sim.dissemination.site_traffic import (
    NONE,
    Contacts,
    Scheme,
    SiteTraffic,
    SourceSite,
    count_by_processor,
    directly,
    grouped,
    joined,
    no_replies,
    repeated,
)
from thinwire_lab.overlay_sim.filters.published_filters import Cooperative, Decomposed
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex


def fired(site: SourceSite, values: Numbers) -> tuple[Numbers, Numbers]:
    """Return indexes of events and the thresholds they fire, from the second value; all are centred at the first."""
    return IntervalIndex(site.thresholds, int(values[0])).offer_many(values[1:])


def counts(site: SourceSite, thresholds: Numbers) -> Numbers:
    """Count each threshold of the source."""
    return np.bincount(site.ranks(thresholds), minlength=len(site.thresholds)).astype(np.int64)


def cooperative_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of MCF: every event goes to the first level, and from there to the thresholds whose upper
    filter passes it, in one multicast per first-level node."""
    scheme = Cooperative(site.thresholds, int(values[0]), site.model.step)
    passage = scheme.run(values[1:])
    firsts = np.array([chain[0] for chain in scheme.chains.values()], dtype=np.int64)
    deep = firsts < site.thresholds
    upper, lower = _places(site, np.array(scheme.first_level), firsts, deep)
    ranks = site.ranks(passage.passed)
    forwarded = deep[ranks]
    at, ranks = passage.passed_at[forwarded], ranks[forwarded]
    onward = grouped(at * (len(site.processors) + 1) + upper[ranks], upper[ranks] + 1, lower[ranks])
    return SiteTraffic(
        joined([repeated([(0, upper, len(values) - 1)]), onward]),
        no_replies(site),
        counts(site, passage.thresholds),
        [(int(a), int(b)) if more else (int(b),) for a, b, more in zip(upper, lower, deep, strict=True)],
        count_by_processor(site, upper) + count_by_processor(site, lower[deep]),
        int(site.hops[upper + 1, lower][deep].sum()),
    )


def _places(
    site: SourceSite, first_level: Numbers, firsts: Numbers, deep: NDArray[np.bool_]
) -> tuple[Numbers, Numbers]:
    """Return the processors of the first and the last filter of each threshold; the first level is assigned first."""
    assigned = site.assign(len(first_level) + int(np.count_nonzero(deep)))
    upper = assigned[np.searchsorted(first_level, firsts)]
    lower = upper.copy()
    lower[deep] = assigned[len(first_level) :]
    return upper, lower


def decomposed_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of MFD: a filter that passes a value sends it to all filters below; filters of one node send
    together."""
    scheme = Decomposed(site.thresholds, int(values[0]), site.model.base)
    passage = scheme.run(values[1:])
    places = _places_decomposed(site, scheme.parents)
    firsts = repeated([(0, places[scheme.parents < 0], len(values) - 1)])
    onward = _onward(site, scheme, places, passage.passed_at, np.searchsorted(scheme.names, passage.passed))
    chains = _chains(scheme.parents, places)
    return SiteTraffic(
        joined([firsts, onward]),
        no_replies(site),
        counts(site, passage.thresholds),
        [chains[n] for n in np.searchsorted(scheme.names, site.thresholds)],
        count_by_processor(site, places),
        int(sum(site.hops[places[parent] + 1, places[n]] for n, parent in enumerate(scheme.parents) if parent >= 0)),
    )


def _onward(site: SourceSite, scheme: Decomposed, places: Numbers, at: Numbers, passed: Numbers) -> Contacts:
    """Return the messages from each filter that passed a value to all filters below it."""
    order = np.argsort(scheme.parents, kind="stable")
    below = np.searchsorted(scheme.parents[order], np.arange(len(places) + 1))
    sizes = np.diff(below)[passed]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    children = order[np.repeat(below[passed], sizes) + within]
    senders = places[np.repeat(passed, sizes)] + 1
    return grouped(np.repeat(at, sizes) * (len(site.processors) + 1) + senders, senders, places[children])


def _places_decomposed(site: SourceSite, parents: Numbers) -> Numbers:
    """Assign filters to processors by level, each level by threshold."""
    levels = np.zeros(len(parents), dtype=np.int64)
    for n, parent in enumerate(parents):
        levels[n] = levels[parent] + 1 if parent >= 0 else 0
    places = np.empty(len(parents), dtype=np.int64)
    places[np.argsort(levels, kind="stable")] = site.assign(len(parents))
    return places


def _chains(parents: Numbers, places: Numbers) -> list[tuple[int, ...]]:
    """Return the path down to each filter. Parents have smaller thresholds, so they come first."""
    chains: list[tuple[int, ...]] = []
    for parent, place in zip(parents.tolist(), places.tolist(), strict=True):
        chains.append((*chains[parent], place) if parent >= 0 else (place,))
    return chains


def indexed_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of SRI: one multicast per event that fires a threshold.

    OnlineGreedy decides from the values alone, so there are no replies, and processors store only subscribers.
    """
    events, thresholds = fired(site, values)
    entries = no_replies(site)
    entries[0] = len(site.thresholds)
    return SiteTraffic(
        grouped(events, np.zeros_like(events), site.places[site.ranks(thresholds)]),
        no_replies(site),
        counts(site, thresholds),
        directly(site),
        entries,
        int(hops(site.ring, site.processors[site.places], site.publisher).sum()),
    )


def safe_region_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of SRT: a multicast from each visited node to its visited children."""
    events, thresholds = fired(site, values)
    contacts, replies = _visits(site, events, site.places[site.ranks(thresholds)])
    chains = _chains_safe_region(site)
    return SiteTraffic(
        contacts,
        replies,
        counts(site, thresholds),
        chains,
        count_by_processor(site, site.places) + _adverts(site),
        sum(len(chain) for chain in chains),
    )


def levels(processors: int, fan_out: int) -> list[int]:
    """Return the number of processors below a node of each level, leaves first; the root has the rest.

    >>> levels(32, 4), levels(3, 4)
    ([1, 4, 16], [1])
    """
    sizes = [1]
    while sizes[-1] * fan_out < processors:
        sizes.append(sizes[-1] * fan_out)
    return sizes


def _hosts(site: SourceSite, places: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Return the hosts of the nodes above these processors, and the hosts of their parents."""
    own = places // size * size
    above = levels(len(site.processors), site.model.fan_out)[-1]
    parent = places * 0 if size == above else places // (size * site.model.fan_out) * (size * site.model.fan_out) + 1
    return own, parent


def _visits(site: SourceSite, events: Numbers, places: Numbers) -> tuple[Contacts, Numbers]:
    parts, replies = [NONE], no_replies(site)
    width = len(site.processors) + 1
    for size in levels(len(site.processors), site.model.fan_out):
        own, parent = _hosts(site, places, size)
        parts.append(grouped(events * width + parent, parent, own))
        visited = np.unique((events * width + own) * width + parent)
        child, above = visited // width % width, visited % width
        apart = np.where(above == 0, site.publisher, site.processors[above - 1]) != site.processors[child]
        replies += np.bincount(above[apart], minlength=width).astype(np.int64)
    return joined(parts), replies


def _chains_safe_region(site: SourceSite) -> list[tuple[int, ...]]:
    """Return the hosts of the nodes above each threshold, from the top down."""
    hosts = [own for own, _ in _hosts_by_level(site, site.places)]
    return [tuple(int(own[n]) for own in reversed(hosts)) for n in range(len(site.places))]


def _hosts_by_level(site: SourceSite, places: Numbers) -> list[tuple[Numbers, Numbers]]:
    return [_hosts(site, places, size) for size in levels(len(site.processors), site.model.fan_out)]


def _adverts(site: SourceSite) -> Numbers:
    """Return the number of adverts that each host stores: one for each child."""
    entries = no_replies(site)
    for own, parent in _hosts_by_level(site, np.arange(len(site.processors))):
        pairs = np.unique(np.stack([own, parent], axis=1), axis=0)
        entries += np.bincount(pairs[:, 1], minlength=len(entries)).astype(np.int64)
    return entries


def single_level_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of SF: the same multicast for every event."""
    return SiteTraffic(
        repeated([(0, np.arange(len(site.processors)), len(values) - 1)]),
        no_replies(site),
        counts(site, fired(site, values)[1]),
        directly(site),
        count_by_processor(site, site.places),
        0,
    )


SCHEMES: dict[str, Scheme] = {
    "SF": single_level_traffic,
    "MFD": decomposed_traffic,
    "MCF": cooperative_traffic,
    "SRT": safe_region_traffic,
    "SRI": indexed_traffic,
}
"""all but MFD deliver exactly what OnlineGreedy does; MFD may deliver more"""
