"""From processors to subscribers: one multicast a threshold, the same in every scheme."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.chord.ring_routes import hops, routes
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Site


class Delivering(NamedTuple):
    """What one delivery of each threshold takes, and what it took to register for it.

    registered: messages in which all subscriptions reached the processors of their thresholds
    messages: nodes on the tree, the processor left out
    hops: from the processor to each subscriber, added up
    subscribers: how many they are
    nodes, starts: the nodes of each tree
    """

    registered: int
    messages: Numbers
    hops: Numbers
    subscribers: Numbers
    nodes: Numbers
    starts: Numbers

    def loads(self, delivered: Numbers, nodes: int) -> Numbers:
        """What each node receives where each threshold delivered so often."""
        weights = np.repeat(delivered, np.diff(self.starts))
        return np.bincount(self.nodes, weights, nodes).astype(np.int64)


def delivering(site: Site, places: Numbers) -> Delivering:
    """The trees of a source whose thresholds are kept at these places."""
    demands, thresholds = site.demands, site.thresholds
    hosts = site.processors[places]
    ranks = site.ranks(demands.thresholds)
    ways = hops(site.ring, hosts[ranks], demands.nodes)
    trees = [_tree(site, int(host), demands.nodes[ranks == rank]) for rank, host in enumerate(hosts)]
    sizes = np.array([len(tree) for tree in trees], dtype=np.int64)
    return Delivering(
        int(hops(site.ring, demands.nodes, hosts[ranks]).sum()),
        sizes,
        np.bincount(ranks, ways, len(thresholds)).astype(np.int64),
        np.bincount(ranks, minlength=len(thresholds)).astype(np.int64),
        np.concatenate(trees),
        np.concatenate([[0], np.cumsum(sizes)]),
    )


def _tree(site: Site, host: int, subscribers: Numbers) -> Numbers:
    """The nodes on the ways from the host to these subscribers; where they are one tree, each has one message."""
    return np.unique(routes(site.ring, [host], np.unique(subscribers).tolist()).nodes)
