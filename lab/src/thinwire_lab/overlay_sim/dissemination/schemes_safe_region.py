"""The safe-region tree over the processors: an event goes down where something fires, an advert comes back up.

Between events the tree comes to rest, so an event visits a node exactly where a threshold below it fires; how it
behaves while messages are under way is played in `thinwire_lab.overlay_sim.safe_region`.
"""

from __future__ import annotations

import numpy as np

from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.dissemination.schemes_fired import counts, fired
from thinwire_lab.overlay_sim.dissemination.site_traffic import NONE, Contacts, grouped, joined
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Site
from thinwire_lab.overlay_sim.dissemination.site_traffic_traffic import Traffic, kept_by_processors, no_replies


def traffic(site: Site, values: Numbers) -> Traffic:
    """A multicast from each node that is visited to its children that are."""
    events, thresholds = fired(site, values)
    contacts, replies = _visits(site, events, site.places[site.ranks(thresholds)])
    chains = _chains(site)
    return Traffic(
        contacts,
        replies,
        counts(site, thresholds),
        chains,
        kept_by_processors(site, site.places) + _adverts(site),
        sum(len(chain) for chain in chains),
    )


def levels(processors: int, fan_out: int) -> list[int]:
    """How many processors lie below a node of each level, leaves first; the root has the rest.

    >>> levels(32, 4), levels(3, 4)
    ([1, 4, 16], [1])
    """
    sizes = [1]
    while sizes[-1] * fan_out < processors:
        sizes.append(sizes[-1] * fan_out)
    return sizes


def _hosts(site: Site, places: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """For the nodes above these places: where they live, and where their parents do."""
    own = places // size * size
    above = levels(len(site.processors), site.model.fan_out)[-1]
    parent = places * 0 if size == above else places // (size * site.model.fan_out) * (size * site.model.fan_out) + 1
    return own, parent


def _visits(site: Site, events: Numbers, places: Numbers) -> tuple[Contacts, Numbers]:
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


def _chains(site: Site) -> list[tuple[int, ...]]:
    """Where the nodes above each threshold live, from the top down."""
    hosts = [own for own, _ in _ways(site, site.places)]
    return [tuple(int(own[n]) for own in reversed(hosts)) for n in range(len(site.places))]


def _ways(site: Site, places: Numbers) -> list[tuple[Numbers, Numbers]]:
    return [_hosts(site, places, size) for size in levels(len(site.processors), site.model.fan_out)]


def _adverts(site: Site) -> Numbers:
    """One for each child, with the parent."""
    entries = no_replies(site)
    for own, parent in _ways(site, np.arange(len(site.processors))):
        pairs = np.unique(np.stack([own, parent], axis=1), axis=0)
        entries += np.bincount(pairs[:, 1], minlength=len(entries)).astype(np.int64)
    return entries
