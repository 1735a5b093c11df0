"""Traffic of one source on the ring: its hosts, the multicasts between them, and the deliveries to subscribers."""

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
from thinwire_lab.overlay_sim.dissemination.cost_model import PINNED, Model


class Contacts(NamedTuple):
    """Multicasts in columns: sender, receivers, and how often each was sent.

    Senders are 0 for the publisher and j + 1 for processor j; receivers are processors. The receivers of multicast i
    are receivers[starts[i] : starts[i + 1]].
    """

    senders: Numbers
    starts: Numbers
    receivers: Numbers
    times: Numbers


NONE = Contacts(*(np.zeros(n, dtype=np.int64) for n in (0, 1, 0, 0)))


def repeated(groups: Sequence[tuple[int, Numbers, int]]) -> Contacts:
    """Return multicasts that are sent several times: sender, receivers, times.

    >>> repeated([(0, np.array([1, 2]), 10)]).times
    array([10])
    """
    distinct = [np.unique(receivers) for _, receivers, _ in groups]
    starts = np.cumsum([0, *map(len, distinct)])
    receivers = np.concatenate(distinct) if distinct else np.empty(0)
    senders, times = ([group[k] for group in groups] for k in (0, 2))
    return Contacts(*(np.asarray(column, dtype=np.int64) for column in (senders, starts, receivers, times)))


def grouped(multicasts: Numbers, senders: Numbers, receivers: Numbers) -> Contacts:
    """Group messages to multicasts. Messages of one multicast are adjacent; receivers may repeat.

    >>> grouped(np.array([0, 0, 7]), np.array([0, 0, 3]), np.array([5, 5, 6])).receivers
    array([5, 6])
    """
    if not len(multicasts):
        return NONE
    order = np.lexsort((receivers, multicasts))
    multicasts, senders, receivers = multicasts[order], senders[order], receivers[order]
    new = np.concatenate([[True], multicasts[1:] != multicasts[:-1]])
    kept = new | np.concatenate([[True], receivers[1:] != receivers[:-1]])
    starts = np.concatenate([np.flatnonzero(new[kept]), [np.count_nonzero(kept)]])
    return Contacts(senders[new], starts, receivers[kept], np.ones(np.count_nonzero(new), dtype=np.int64))


def joined(parts: Sequence[Contacts]) -> Contacts:
    """Concatenate multicasts."""
    offsets = np.cumsum([0, *(len(part.receivers) for part in parts)])
    starts = [part.starts[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    return Contacts(
        np.concatenate([part.senders for part in parts]),
        np.concatenate([*starts, offsets[-1:]]),
        np.concatenate([part.receivers for part in parts]),
        np.concatenate([part.times for part in parts]),
    )


def count_messages(routes: Routes, contacts: Contacts, loads: Numbers) -> int:
    """Return the number of messages, and add those that each node receives to `loads`."""
    stamps = np.full(len(loads), -1, dtype=np.int64)
    return int(_count_messages(*routes, *contacts, stamps, loads))


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
    def random(cls, ring: Ring, count: int, rng: np.random.Generator, largest: int = PINNED.largest) -> SourceDemands:
        """Return random subscriptions of any node with thresholds from 1 to the largest."""
        return cls(rng.integers(0, len(ring), count), rng.integers(1, largest + 1, count))


@dataclass(frozen=True)
class SourceSite:
    """Hosts of a source.

    publisher: its node
    processors: nodes that store thresholds, clockwise
    thresholds: the distinct subscribed ones, ascending
    """

    ring: Ring
    publisher: int
    processors: Numbers
    thresholds: Numbers
    demands: SourceDemands
    model: Model = PINNED

    @classmethod
    def at(cls, ring: Ring, name: str, publisher: int, demands: SourceDemands, model: Model = PINNED) -> SourceSite:
        """Return the site of a source with this name."""
        thresholds = np.unique(demands.thresholds)
        count = min(model.processors, len(ring), len(thresholds))
        first = ring.successor(key_of(name, ring.bits))
        return cls(ring, publisher, (first + np.arange(count)) % len(ring), thresholds, demands, model)

    @cached_property
    def places(self) -> Numbers:
        """The index of the processor of each threshold, assigned in order."""
        return self.assign(len(self.thresholds))

    def assign(self, count: int) -> Numbers:
        """Assign filters to processors, neighbours together. Return the processor index of each.

        A hierarchy assigns its filters by level, as the thesis does.
        """
        return np.arange(count) * len(self.processors) // count

    def ranks(self, thresholds: Numbers) -> Numbers:
        """Return the indexes of thresholds in their order."""
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
    """Multicast trees from processors to subscribers, one per threshold and equal in all schemes.

    registered: messages with which all subscriptions reached the processors of their thresholds
    messages: nodes of the tree, without the processor
    hops: from the processor to each subscriber, summed
    subscribers: their number
    nodes, starts: the nodes of each tree
    """

    registered: int
    messages: Numbers
    hops: Numbers
    subscribers: Numbers
    nodes: Numbers
    starts: Numbers

    def loads(self, delivered: Numbers, nodes: int) -> Numbers:
        """Return the messages that each node receives, given the number of deliveries of each threshold."""
        weights = np.repeat(delivered, np.diff(self.starts))
        return np.bincount(self.nodes, weights, nodes).astype(np.int64)


def delivery_trees(site: SourceSite, places: Numbers) -> DeliveryTrees:
    """Return the trees of a source whose thresholds are stored at these processors."""
    demands, thresholds = site.demands, site.thresholds
    hosts = site.processors[places]
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
    """Return the nodes on the routes from the host to these subscribers; each receives one message."""
    return np.unique(routes(site.ring, [host], np.unique(subscribers).tolist()).nodes)


Chains = Sequence[tuple[int, ...]]
"""for each threshold the indexes of some processors"""


class SiteTraffic(NamedTuple):
    """Messages between the hosts of a source under one scheme, deliveries, and stored entries.

    Hosts are 0 for the publisher and j + 1 for processor j.

    contacts: multicasts between hosts
    replies: messages that a host receives directly from another
    delivered: number of deliveries of each threshold
    chains: the processors that an event passes on its path to each threshold, the threshold's own last
    entries: filters, intervals and adverts stored by each host
    established: messages that set up the scheme, besides the subscriptions
    """

    contacts: Contacts
    replies: Numbers
    delivered: Numbers
    chains: Chains
    entries: Numbers
    established: int

    @property
    def places(self) -> Numbers:
        """The processor of each threshold."""
        return np.array([chain[-1] for chain in self.chains], dtype=np.int64)

    def reached(self, site: SourceSite) -> Numbers:
        """Return the hops of an event from the publisher to the processor of each threshold."""
        paths = ([(0, chain[0]), *((a + 1, b) for a, b in pairwise(chain))] for chain in self.chains)
        return np.array([sum(site.hops[a, b] for a, b in path) for path in paths], dtype=np.int64)


Scheme = Callable[[SourceSite, Numbers], SiteTraffic]
"""returns the traffic of a source with values"""


def directly(site: SourceSite) -> Chains:
    """Return chains directly from the publisher to every threshold."""
    return [(int(place),) for place in site.places]


def no_replies(site: SourceSite) -> Numbers:
    """Return zero replies for every host."""
    return np.zeros(len(site.processors) + 1, dtype=np.int64)


def count_by_processor(site: SourceSite, places: Numbers) -> Numbers:
    """Count the entries of each host, given their processors."""
    return np.bincount(places + 1, minlength=len(site.processors) + 1).astype(np.int64)
