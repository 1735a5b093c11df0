"""Who told whom: multicasts between the hosts of a source, and what they cost on the ring.

A source on the ring: who publishes it, who keeps its thresholds, who subscribes.

From processors to subscribers: one multicast a threshold, the same in every scheme.

What a scheme makes of a stream: messages between hosts, deliveries, and what has to be remembered where.
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
from thinwire_lab.overlay_sim.dissemination.cost_model import PINNED, Model


class Contacts(NamedTuple):
    """Multicasts, one after the other: sender, receivers, and how often it was sent.

    Senders are 0 for the publisher and j + 1 for processor j, receivers processors. The receivers of multicast i are
    receivers[starts[i] : starts[i + 1]].
    """

    senders: Numbers
    starts: Numbers
    receivers: Numbers
    times: Numbers


NONE = Contacts(*(np.zeros(n, dtype=np.int64) for n in (0, 1, 0, 0)))


def repeated(groups: Sequence[tuple[int, Numbers, int]]) -> Contacts:
    """Multicasts that are always the same: sender, receivers, times.

    >>> repeated([(0, np.array([1, 2]), 10)]).times
    array([10])
    """
    every = [np.unique(receivers) for _, receivers, _ in groups]
    starts = np.cumsum([0, *map(len, every)])
    receivers = np.concatenate(every) if every else np.empty(0)
    senders, times = ([group[k] for group in groups] for k in (0, 2))
    return Contacts(*(np.asarray(column, dtype=np.int64) for column in (senders, starts, receivers, times)))


def grouped(multicasts: Numbers, senders: Numbers, receivers: Numbers) -> Contacts:
    """Messages that belong to the same multicast stand side by side, its receivers in any order, also twice.

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
    """All of them as one."""
    offsets = np.cumsum([0, *(len(part.receivers) for part in parts)])
    starts = [part.starts[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    return Contacts(
        np.concatenate([part.senders for part in parts]),
        np.concatenate([*starts, offsets[-1:]]),
        np.concatenate([part.receivers for part in parts]),
        np.concatenate([part.times for part in parts]),
    )


def spread(routes: Routes, contacts: Contacts, loads: Numbers) -> int:
    """The messages all of it takes; adds what each node receives to the loads."""
    stamps = np.full(len(loads), -1, dtype=np.int64)
    return int(_spread(*routes, *contacts, stamps, loads))


@compiled
def _spread(
    places: Numbers,
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
            way = senders[i] * width + receivers[k]
            for at in range(places[way], places[way + 1]):
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
        """So many subscriptions of any node, with any threshold from 1 to the largest."""
        return cls(rng.integers(0, len(ring), count), rng.integers(1, largest + 1, count))


@dataclass(frozen=True)
class SourceSite:
    """Where everything of a source is.

    publisher: a node
    processors: nodes, clockwise
    thresholds: the distinct ones that are asked for, ascending
    """

    ring: Ring
    publisher: int
    processors: Numbers
    thresholds: Numbers
    demands: SourceDemands
    model: Model = PINNED

    @classmethod
    def at(cls, ring: Ring, name: str, publisher: int, demands: SourceDemands, model: Model = PINNED) -> SourceSite:
        """The site of a source of this name."""
        thresholds = np.unique(demands.thresholds)
        count = min(model.processors, len(ring), len(thresholds))
        first = ring.successor(key_of(name, ring.bits))
        return cls(ring, publisher, (first + np.arange(count)) % len(ring), thresholds, demands, model)

    @cached_property
    def places(self) -> Numbers:
        """The processor of each threshold, by its place among the processors: dealt out in order."""
        return self.dealt(len(self.thresholds))

    def dealt(self, count: int) -> Numbers:
        """So many filters over the processors, neighbours together: the place of each.

        A hierarchy deals out its filters level by level, as the thesis does.
        """
        return np.arange(count) * len(self.processors) // count

    def ranks(self, thresholds: Numbers) -> Numbers:
        """Where these are in the order of the thresholds."""
        return np.searchsorted(self.thresholds, thresholds)

    @cached_property
    def routes(self) -> Routes:
        """Ways to each processor: from the publisher (sender 0) and from processor j (sender j + 1)."""
        return routes(self.ring, [self.publisher, *self.processors.tolist()], self.processors.tolist())

    @cached_property
    def hops(self) -> Numbers:
        """The lengths of those ways: a row a sender, a column a processor."""
        return self.routes.lengths


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


def delivering(site: SourceSite, places: Numbers) -> Delivering:
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


def _tree(site: SourceSite, host: int, subscribers: Numbers) -> Numbers:
    """The nodes on the ways from the host to these subscribers; where they are one tree, each has one message."""
    return np.unique(routes(site.ring, [host], np.unique(subscribers).tolist()).nodes)


Chains = Sequence[tuple[int, ...]]
"""for each threshold the places of some processors"""


class SiteTraffic(NamedTuple):
    """Hosts are 0 for the publisher and j + 1 for processor j.

    contacts: multicasts between hosts
    replies: messages that a host gets straight from another
    delivered: how often each threshold delivered
    chains: the processors that an event goes through on its way to each threshold, the threshold's own last
    entries: filters, intervals and adverts kept by each host
    established: messages that set up what the scheme needs beside the subscriptions themselves
    """

    contacts: Contacts
    replies: Numbers
    delivered: Numbers
    chains: Chains
    entries: Numbers
    established: int

    @property
    def places(self) -> Numbers:
        """Where each threshold is kept."""
        return np.array([chain[-1] for chain in self.chains], dtype=np.int64)

    def reached(self, site: SourceSite) -> Numbers:
        """Hops of an event from the publisher to the processor of each threshold."""
        ways = ([(0, chain[0]), *((a + 1, b) for a, b in pairwise(chain))] for chain in self.chains)
        return np.array([sum(site.hops[a, b] for a, b in way) for way in ways], dtype=np.int64)


Scheme = Callable[[SourceSite, Numbers], SiteTraffic]
"""from a source and its values to its traffic"""


def directly(site: SourceSite) -> Chains:
    """Straight from the publisher to every threshold."""
    return [(int(place),) for place in site.places]


def no_replies(site: SourceSite) -> Numbers:
    """Nobody answers."""
    return np.zeros(len(site.processors) + 1, dtype=np.int64)


def kept_by_processors(site: SourceSite, places: Numbers) -> Numbers:
    """One entry for each place that is named."""
    return np.bincount(places + 1, minlength=len(site.processors) + 1).astype(np.int64)
