"""Traffic of one source on the ring: multicasts between its hosts, and deliveries to subscribers.

The *hosts* of a source are 0 for its publisher and j + 1 for its processor j. The rank of a threshold is its index
among the distinct thresholds of the source, ascending.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from thinwire.codec.kernels.jit import compiled
from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Numbers, Ring, Routes, hops, key_of, routes
from thinwire_lab.overlay_sim.dissemination.cost_model import DEFAULT_MODEL, Model


class Multicasts(NamedTuple):
    """Multicasts between hosts, one element of `senders` and `times` each.

    The receivers of multicast i are receivers[starts[i] : starts[i + 1]].

    senders: hosts
    receivers: indexes of processors
    times: how often each multicast is sent
    """

    senders: Numbers
    starts: Numbers
    receivers: Numbers
    times: Numbers


NO_MULTICASTS = Multicasts(*(np.zeros(n, dtype=np.int64) for n in (0, 1, 0, 0)))


def repeated_multicasts(groups: Sequence[tuple[int, Numbers, int]]) -> Multicasts:
    """Return multicasts of these senders, receivers and times.

    >>> repeated_multicasts([(0, np.array([1, 2]), 10)]).times
    array([10])
    """
    distinct = [np.unique(receivers) for _, receivers, _ in groups]
    starts = np.cumsum([0, *map(len, distinct)])
    receivers = np.concatenate(distinct) if distinct else np.empty(0)
    senders, times = ([group[k] for group in groups] for k in (0, 2))
    return Multicasts(*(np.asarray(column, dtype=np.int64) for column in (senders, starts, receivers, times)))


def group_messages(multicasts: Numbers, senders: Numbers, receivers: Numbers) -> Multicasts:
    """Return the multicasts of messages; a receiver that occurs several times in a multicast gets one message.

    multicasts: number of the multicast of each message

    >>> group_messages(np.array([0, 0, 7]), np.array([0, 0, 3]), np.array([5, 5, 6])).receivers
    array([5, 6])
    """
    if not len(multicasts):
        return NO_MULTICASTS
    order = np.lexsort((receivers, multicasts))
    multicasts, senders, receivers = multicasts[order], senders[order], receivers[order]
    new = np.concatenate([[True], multicasts[1:] != multicasts[:-1]])
    is_distinct = new | np.concatenate([[True], receivers[1:] != receivers[:-1]])
    starts = np.concatenate([np.flatnonzero(new[is_distinct]), [np.count_nonzero(is_distinct)]])
    return Multicasts(senders[new], starts, receivers[is_distinct], np.ones(np.count_nonzero(new), dtype=np.int64))


def concatenate(parts: Sequence[Multicasts]) -> Multicasts:
    """Concatenate multicasts."""
    offsets = np.cumsum([0, *(len(part.receivers) for part in parts)])
    starts = [part.starts[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    return Multicasts(
        np.concatenate([part.senders for part in parts]),
        np.concatenate([*starts, offsets[-1:]]),
        np.concatenate([part.receivers for part in parts]),
        np.concatenate([part.times for part in parts]),
    )


def count_messages(routes: Routes, multicasts: Multicasts, loads: Numbers) -> int:
    """Return the number of messages of multicasts, and add those that each node receives to `loads`."""
    stamps = np.full(len(loads), -1, dtype=np.int64)
    return int(_count_messages(*routes, *multicasts, stamps, loads))


@compiled
def _count_messages(
    offsets: Numbers,
    nodes: Numbers,
    width: int,
    senders: Numbers,
    starts: Numbers,
    receivers: Numbers,
    times: Numbers,
    stamps: Numbers,
    loads: Numbers,
) -> int:
    messages = 0
    for i in range(len(senders)):
        for k in range(starts[i], starts[i + 1]):
            path = senders[i] * width + receivers[k]
            for at in range(offsets[path], offsets[path + 1]):
                node = nodes[at]
                if stamps[node] != i:
                    stamps[node] = i
                    loads[node] += times[i]
                    messages += times[i]
    return messages


@dataclass(frozen=True)
class SourceDemands:
    """Subscriptions of one source: the node and the threshold of each."""

    nodes: Numbers
    thresholds: Numbers

    def __post_init__(self) -> None:
        if len(self.nodes) != len(self.thresholds) or not len(self.nodes):
            raise ConfigError("a subscription has a node and a threshold", nodes=len(self.nodes))
        if self.thresholds.min() < 0:
            raise ConfigError("outside its limits", field="threshold", value=int(self.thresholds.min()), lowest=0)

    @classmethod
    def random(
        cls, ring: Ring, count: int, rng: np.random.Generator, largest: int = DEFAULT_MODEL.largest
    ) -> SourceDemands:
        """Return `count` subscriptions of random nodes with thresholds from 1 to the largest."""
        return cls(rng.integers(0, len(ring), count), rng.integers(1, largest + 1, count))


@dataclass(frozen=True)
class SourceSite:
    """The nodes that a source uses, and its subscriptions.

    publisher: node that publishes
    processors: nodes that store thresholds, clockwise
    thresholds: distinct subscribed thresholds, ascending
    """

    ring: Ring
    publisher: int
    processors: Numbers
    thresholds: Numbers
    demands: SourceDemands
    model: Model = DEFAULT_MODEL

    @classmethod
    def at(
        cls, ring: Ring, name: str, publisher: int, demands: SourceDemands, model: Model = DEFAULT_MODEL
    ) -> SourceSite:
        """Return the site of a source with this name."""
        thresholds = np.unique(demands.thresholds)
        count = min(model.processors, len(ring), len(thresholds))
        first = ring.successor(key_of(name, ring.bits))
        return cls(ring, publisher, (first + np.arange(count)) % len(ring), thresholds, demands, model)

    @cached_property
    def processor_of(self) -> Numbers:
        """The index of the processor of each threshold, assigned in order."""
        return self.assign(len(self.thresholds))

    def assign(self, count: int) -> Numbers:
        """Distribute `count` filters over the processors in order. Return the processor index of each filter."""
        return np.arange(count) * len(self.processors) // count

    def ranks(self, thresholds: Numbers) -> Numbers:
        """Return the ranks of thresholds."""
        return np.searchsorted(self.thresholds, thresholds)

    @cached_property
    def routes(self) -> Routes:
        """Routes to each processor: from the publisher (sender 0) and from processor j (sender j + 1)."""
        return routes(self.ring, [self.publisher, *self.processors.tolist()], self.processors.tolist())

    @cached_property
    def hops(self) -> Numbers:
        """The lengths of the routes: one row per sender, one column per processor."""
        return self.routes.lengths


class DeliveryTrees(NamedTuple):
    """Multicast trees from processors to subscribers, one per threshold. All arrays but `nodes` are by rank.

    registration: messages with which all subscriptions reach the processors of their thresholds
    messages: number of nodes of each tree, without the processor
    hops: hops from the processor to each subscriber, summed over subscribers
    subscribers: number of subscribers
    nodes, starts: the nodes of tree i are nodes[starts[i] : starts[i + 1]]
    """

    registration: int
    messages: Numbers
    hops: Numbers
    subscribers: Numbers
    nodes: Numbers
    starts: Numbers

    def loads(self, fired: Numbers, nodes: int) -> Numbers:
        """Return the messages that each of `nodes` nodes receives if each threshold fires as often as in `fired`."""
        weights = np.repeat(fired, np.diff(self.starts))
        return np.bincount(self.nodes, weights, nodes).astype(np.int64)


def delivery_trees(site: SourceSite, processor_of: Numbers) -> DeliveryTrees:
    """Return the trees of a source whose thresholds are stored at the processors with these indexes."""
    demands, thresholds = site.demands, site.thresholds
    hosts = site.processors[processor_of]
    ranks = site.ranks(demands.thresholds)
    lengths = hops(site.ring, hosts[ranks], demands.nodes)
    trees = [_tree(site, int(host), demands.nodes[ranks == rank]) for rank, host in enumerate(hosts)]
    sizes = np.array([len(tree) for tree in trees], dtype=np.int64)
    return DeliveryTrees(
        int(hops(site.ring, demands.nodes, hosts[ranks]).sum()),
        sizes,
        np.bincount(ranks, lengths, len(thresholds)).astype(np.int64),
        np.bincount(ranks, minlength=len(thresholds)).astype(np.int64),
        np.concatenate(trees),
        np.concatenate([[0], np.cumsum(sizes)]),
    )


def _tree(site: SourceSite, host: int, subscribers: Numbers) -> Numbers:
    """Return the nodes on the routes from a processor to these subscribers; each receives one message."""
    return np.unique(routes(site.ring, [host], np.unique(subscribers).tolist()).nodes)


Paths = Sequence[tuple[int, ...]]
"""by rank, the indexes of the processors that an event passes on its path to the threshold, the threshold's own last"""


class SiteTraffic(NamedTuple):
    """Messages between the hosts of a source under one scheme, thresholds that fire, and stored entries.

    multicasts: multicasts between hosts
    replies: messages that each host receives directly from another one
    fired: how often each threshold fires, by rank
    paths: paths of events to thresholds
    entries: filters, intervals and adverts stored by each host
    setup_messages: messages that set up the scheme, besides the subscriptions
    """

    multicasts: Multicasts
    replies: Numbers
    fired: Numbers
    paths: Paths
    entries: Numbers
    setup_messages: int

    @property
    def processor_of(self) -> Numbers:
        """The index of the processor of each threshold, by rank."""
        return np.array([path[-1] for path in self.paths], dtype=np.int64)

    def path_hops(self, site: SourceSite) -> Numbers:
        """Return the hops of an event from the publisher to the processor of each threshold, by rank."""
        paths = ([(0, path[0]), *((a + 1, b) for a, b in pairwise(path))] for path in self.paths)
        return np.array([sum(site.hops[a, b] for a, b in pairs) for pairs in paths], dtype=np.int64)


TrafficFunction = Callable[[SourceSite, Numbers], SiteTraffic]
"""scheme: returns the traffic of a source with values"""


def direct_paths(site: SourceSite) -> Paths:
    """Return paths directly from the publisher to the processor of every threshold."""
    return [(int(processor),) for processor in site.processor_of]


def zeros_by_host(site: SourceSite) -> Numbers:
    """Return an array with a zero for every host."""
    return np.zeros(len(site.processors) + 1, dtype=np.int64)


def count_by_host(site: SourceSite, processors: Numbers) -> Numbers:
    """Count entries by host, given the index of the processor of each entry."""
    return np.bincount(processors + 1, minlength=len(site.processors) + 1).astype(np.int64)
