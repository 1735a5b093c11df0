"""Dissemination schemes: the messages of each event. `cost_model` states the assumptions.

Published schemes (`thinwire_lab.overlay_sim.filters.published_filters`):

- SF, single-level filters: every event goes to every processor.
- MFD, multi-level filter decomposition: events go to the first filters and down every path as far as filters pass them.
- MCF, multi-level cooperative filters: each threshold has its own upper filter, the variant that misses no delivery.

Our schemes:

- SRT, safe-region tree over the processors: a node stores, for each child, the interval in which no threshold below
  the child fires. An event goes down to the thresholds that fire, and an advert, a new safe interval, comes back up.
  Between events the tree is idle, so an event visits exactly the nodes with a firing threshold below them.
- SRI, interval index at the publisher: events go only to processors whose thresholds fire.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thinwire_lab.overlay_sim.chord.ring import Numbers, hops
from thinwire_lab.overlay_sim.dissemination.site_traffic import (
    NO_MULTICASTS,
    Multicasts,
    SiteTraffic,
    SourceSite,
    TrafficFunction,
    concatenate,
    count_by_host,
    direct_paths,
    group_messages,
    repeated_multicasts,
    zeros_by_host,
)
from thinwire_lab.overlay_sim.filters.published_filters import Cooperative, Decomposed
from thinwire_lab.overlay_sim.filters.threshold_decomposition import chosen_chains, digit_chains
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex


def fired(site: SourceSite, values: Numbers) -> tuple[Numbers, Numbers]:
    """Return indexes of events and the thresholds that fire, as pairs.

    All thresholds are centred at the first value; event 0 is the second value.
    """
    return IntervalIndex(site.thresholds, int(values[0])).offer_many(values[1:])


def count_fired(site: SourceSite, thresholds: Numbers) -> Numbers:
    """Return how often each threshold of the source occurs in `thresholds`, by rank."""
    return np.bincount(site.ranks(thresholds), minlength=len(site.thresholds)).astype(np.int64)


def cooperative_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of MCF: every event goes to the first level, which forwards it to some thresholds.

    These are the thresholds whose upper filter passes the event. A first-level node forwards an event in one multicast.
    """
    chains = chosen_chains(site.thresholds.tolist(), site.model.step)
    scheme = Cooperative(chains.values(), int(values[0]))
    passage = scheme.run(values[1:])
    first_radii = np.array([chain[0] for chain in scheme.chains.values()], dtype=np.int64)
    has_two = first_radii < site.thresholds
    upper, lower = _two_level_processors(site, np.array(scheme.first_level), first_radii, has_two)
    ranks = site.ranks(passage.passed_thresholds)
    is_forwarded = has_two[ranks]
    at, ranks = passage.passed_indexes[is_forwarded], ranks[is_forwarded]
    forwarded = group_messages(at * (len(site.processors) + 1) + upper[ranks], upper[ranks] + 1, lower[ranks])
    return SiteTraffic(
        concatenate([repeated_multicasts([(0, upper, len(values) - 1)]), forwarded]),
        zeros_by_host(site),
        count_fired(site, passage.thresholds),
        [(int(a), int(b)) if two else (int(b),) for a, b, two in zip(upper, lower, has_two, strict=True)],
        count_by_host(site, upper) + count_by_host(site, lower[has_two]),
        int(site.hops[upper + 1, lower][has_two].sum()),
    )


def _two_level_processors(
    site: SourceSite, first_level: Numbers, first_radii: Numbers, has_two: NDArray[np.bool_]
) -> tuple[Numbers, Numbers]:
    """Return the processors of the first and the last filter of each threshold, by rank.

    first_level: radii of the first level, ascending; these filters are assigned to processors before all others
    first_radii: radius of the first filter of each threshold
    has_two: whether a threshold has two filters
    """
    assigned = site.assign(len(first_level) + int(np.count_nonzero(has_two)))
    upper = assigned[np.searchsorted(first_level, first_radii)]
    lower = upper.copy()
    lower[has_two] = assigned[len(first_level) :]
    return upper, lower


def decomposed_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of MFD: a filter that passes a value sends it to all filters below it.

    Filters of one node send one multicast together.
    """
    scheme = Decomposed(digit_chains(site.thresholds.tolist(), site.model.base), int(values[0]))
    passage = scheme.run(values[1:])
    processors = _processors_by_level(site, scheme.parents)
    published = repeated_multicasts([(0, processors[scheme.parents < 0], len(values) - 1)])
    passed = np.searchsorted(scheme.filter_thresholds, passage.passed_thresholds)
    paths = _paths(scheme.parents, processors)
    children = [(processors[parent], processors[n]) for n, parent in enumerate(scheme.parents) if parent >= 0]
    return SiteTraffic(
        concatenate([published, _forwarded(site, scheme, processors, passage.passed_indexes, passed)]),
        zeros_by_host(site),
        count_fired(site, passage.thresholds),
        [paths[n] for n in np.searchsorted(scheme.filter_thresholds, site.thresholds)],
        count_by_host(site, processors),
        int(sum(site.hops[sender + 1, receiver] for sender, receiver in children)),
    )


def _forwarded(site: SourceSite, scheme: Decomposed, processors: Numbers, at: Numbers, passed: Numbers) -> Multicasts:
    """Return the multicasts from each filter that passed a value to all filters below it.

    at, passed: pairs of the index of a value and the number of a filter
    """
    order = np.argsort(scheme.parents, kind="stable")
    below = np.searchsorted(scheme.parents[order], np.arange(len(processors) + 1))
    sizes = np.diff(below)[passed]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    children = order[np.repeat(below[passed], sizes) + within]
    senders = processors[np.repeat(passed, sizes)] + 1
    return group_messages(np.repeat(at, sizes) * (len(site.processors) + 1) + senders, senders, processors[children])


def _processors_by_level(site: SourceSite, parents: Numbers) -> Numbers:
    """Assign filters to processors by level, each level by threshold. Return the processor index of each filter."""
    levels = np.zeros(len(parents), dtype=np.int64)
    for n, parent in enumerate(parents):
        levels[n] = levels[parent] + 1 if parent >= 0 else 0
    processors = np.empty(len(parents), dtype=np.int64)
    processors[np.argsort(levels, kind="stable")] = site.assign(len(parents))
    return processors


def _paths(parents: Numbers, processors: Numbers) -> list[tuple[int, ...]]:
    """Return the processors on the path down to each filter. Parents have smaller thresholds, so they come first."""
    paths: list[tuple[int, ...]] = []
    for parent, processor in zip(parents.tolist(), processors.tolist(), strict=True):
        paths.append((*paths[parent], processor) if parent >= 0 else (processor,))
    return paths


def indexed_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of SRI: one multicast per event that fires a threshold.

    OnlineGreedy decides from the values alone, so there are no replies, and processors store only subscribers.
    """
    events, thresholds = fired(site, values)
    entries = zeros_by_host(site)
    entries[0] = len(site.thresholds)
    return SiteTraffic(
        group_messages(events, np.zeros_like(events), site.processor_of[site.ranks(thresholds)]),
        zeros_by_host(site),
        count_fired(site, thresholds),
        direct_paths(site),
        entries,
        int(hops(site.ring, site.processors[site.processor_of], site.publisher).sum()),
    )


def safe_region_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of SRT: a multicast from each visited node to its visited children."""
    events, thresholds = fired(site, values)
    multicasts, replies = _visits(site, events, site.processor_of[site.ranks(thresholds)])
    paths = _tree_paths(site)
    return SiteTraffic(
        multicasts,
        replies,
        count_fired(site, thresholds),
        paths,
        count_by_host(site, site.processor_of) + _adverts(site),
        sum(map(len, paths)),
    )


def levels(processors: int, fan_out: int) -> list[int]:
    """Return the number of processors below a tree node of each level, leaves first; the level of the root is left out.

    >>> levels(32, 4), levels(3, 4)
    ([1, 4, 16], [1])
    """
    sizes = [1]
    while sizes[-1] * fan_out < processors:
        sizes.append(sizes[-1] * fan_out)
    return sizes


def _hosts(site: SourceSite, processors: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Return the processors that host the tree nodes of one level above these processors, and the hosts of the parents.

    size: number of processors below a tree node of the level
    """
    own = processors // size * size
    if size == levels(len(site.processors), site.model.fan_out)[-1]:
        return own, np.zeros_like(processors)
    parent_size = size * site.model.fan_out
    return own, processors // parent_size * parent_size + 1


def _visits(site: SourceSite, events: Numbers, processors: Numbers) -> tuple[Multicasts, Numbers]:
    """Return the multicasts down the tree for pairs of an event and a processor, and the adverts that come back up."""
    parts, replies = [NO_MULTICASTS], zeros_by_host(site)
    width = len(site.processors) + 1
    for size in levels(len(site.processors), site.model.fan_out):
        own, parent = _hosts(site, processors, size)
        parts.append(group_messages(events * width + parent, parent, own))
        visited = np.unique((events * width + own) * width + parent)
        child, above = visited // width % width, visited % width
        is_sent = np.where(above == 0, site.publisher, site.processors[above - 1]) != site.processors[child]
        replies += np.bincount(above[is_sent], minlength=width).astype(np.int64)
    return concatenate(parts), replies


def _tree_paths(site: SourceSite) -> list[tuple[int, ...]]:
    """Return the processors that host the tree nodes above each threshold, from the top down."""
    hosts = [own for own, _ in _hosts_by_level(site, site.processor_of)]
    return [tuple(int(own[n]) for own in reversed(hosts)) for n in range(len(site.processor_of))]


def _hosts_by_level(site: SourceSite, processors: Numbers) -> list[tuple[Numbers, Numbers]]:
    return [_hosts(site, processors, size) for size in levels(len(site.processors), site.model.fan_out)]


def _adverts(site: SourceSite) -> Numbers:
    """Return the number of adverts that each host stores: one for each child."""
    entries = zeros_by_host(site)
    for own, parent in _hosts_by_level(site, np.arange(len(site.processors))):
        pairs = np.unique(np.stack([own, parent], axis=1), axis=0)
        entries += np.bincount(pairs[:, 1], minlength=len(entries)).astype(np.int64)
    return entries


def single_level_traffic(site: SourceSite, values: Numbers) -> SiteTraffic:
    """Return the traffic of SF: the same multicast for every event."""
    return SiteTraffic(
        repeated_multicasts([(0, np.arange(len(site.processors)), len(values) - 1)]),
        zeros_by_host(site),
        count_fired(site, fired(site, values)[1]),
        direct_paths(site),
        count_by_host(site, site.processor_of),
        0,
    )


SCHEMES: dict[str, TrafficFunction] = {
    "SF": single_level_traffic,
    "MFD": decomposed_traffic,
    "MCF": cooperative_traffic,
    "SRT": safe_region_traffic,
    "SRI": indexed_traffic,
}
"""all but MFD deliver exactly what OnlineGreedy does; MFD may deliver more"""
