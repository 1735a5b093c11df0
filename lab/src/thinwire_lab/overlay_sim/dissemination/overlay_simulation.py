"""Simulation of dissemination on a ring: the costs of each scheme, without and with churn.

Churn. In every interval one value is published; a share of the nodes leaves, some of them by a crash, and as many join.
A crash is detected at the end of the interval. Until then its thresholds and those below them receive nothing. Then the
next node takes over. With a copy it continues from the same state. Without one it has no subscribers until they
register again, and no values, so it delivers the next value to all and uses it as their centre. If the interval index
is at the publisher, a crashed processor loses no state, and a subscriber that registers again gets the value that the
others have.

Maintenance of the ring itself is equal for all schemes and not counted; a crashed forwarder costs one more message. All
schemes are assumed to deliver what OnlineGreedy does. The publisher does not leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Numbers, Ring, free_ids, hops
from thinwire_lab.overlay_sim.dissemination.cost_model import PINNED, Model, SchemeCosts, SchemeCounts, costs
from thinwire_lab.overlay_sim.dissemination.schemes import SCHEMES
from thinwire_lab.overlay_sim.dissemination.site_traffic import (
    DeliveryTrees,
    SiteTraffic,
    SourceDemands,
    SourceSite,
    count_messages,
    delivery_trees,
)


def simulate(
    nodes: int,
    streams: Mapping[str, Numbers],
    subscriptions: int,
    schemes: Iterable[str] = tuple(SCHEMES),
    seed: int = 1,
    model: Model = PINNED,
) -> dict[str, SchemeCosts]:
    """Return the costs of each scheme for sources with values and a total number of subscriptions on a random ring.

    >>> walk = np.cumsum(np.random.default_rng(1).integers(-3, 4, 200))
    >>> found = simulate(100, {"walk": walk}, 600, ["SF", "SRI"])
    >>> found["SRI"].maintenance < found["SF"].maintenance / 5, found["SRI"].delivery == found["SF"].delivery
    (True, True)
    """
    selected = _checked(schemes, streams, subscriptions)
    ring = Ring.random(nodes, seed, model.bits)
    tallies = {
        name: SchemeCounts(np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)) for name in selected
    }
    for site, values in zip(sites(ring, list(streams), subscriptions, seed, model), streams.values(), strict=True):
        trees: dict[bytes, DeliveryTrees] = {}
        for name, tally in tallies.items():
            traffic = SCHEMES[name](site, values)
            # Most schemes store thresholds at the same processors and then deliver by the same trees.
            key = traffic.places.tobytes()
            trees[key] = trees.get(key) or delivery_trees(site, traffic.places)
            add(tally, site, traffic, trees[key], len(values) - 1)
    return {name: costs(tally) for name, tally in tallies.items()}


def sites(ring: Ring, names: Sequence[str], subscriptions: int, seed: int, model: Model = PINNED) -> list[SourceSite]:
    """Return the sources on the ring with evenly distributed subscriptions; the first ones get the remainder."""
    rng = np.random.default_rng([seed, len(ring)])
    shares = [subscriptions // len(names) + (n < subscriptions % len(names)) for n in range(len(names))]
    return [
        SourceSite.at(
            ring, name, int(rng.integers(len(ring))), SourceDemands.random(ring, share, rng, model.largest), model
        )
        for name, share in zip(names, shares, strict=True)
    ]


def add(tally: SchemeCounts, site: SourceSite, traffic: SiteTraffic, trees: DeliveryTrees, events: int) -> None:
    """Add the counts of a source."""
    hosts = np.concatenate([[site.publisher], site.processors])
    tally.events += events
    tally.subscriptions += len(site.demands.nodes)
    tally.registered += trees.registered + traffic.established
    tally.maintained += count_messages(site.routes, traffic.contacts, tally.loads) + int(traffic.replies.sum())
    tally.delivered += int(traffic.delivered @ trees.messages)
    tally.deliveries += int(traffic.delivered @ trees.subscribers)
    tally.hops += int(traffic.delivered @ (trees.hops + traffic.reached(site) * trees.subscribers))
    tally.length += int(traffic.delivered.sum())
    tally.loads += trees.loads(traffic.delivered, len(tally.loads))
    np.add.at(tally.loads, hosts, traffic.replies)
    np.add.at(tally.state, hosts, traffic.entries)
    np.add.at(tally.state, site.processors[traffic.places[site.ranks(site.demands.thresholds)]], 1)


def _checked(schemes: Iterable[str], streams: Mapping[str, Numbers], subscriptions: int) -> list[str]:
    chosen = list(schemes)
    if unknown := [name for name in chosen if name not in SCHEMES]:
        raise ConfigError("unknown scheme", scheme=unknown[0], choose_from=list(SCHEMES))
    if not streams or any(len(values) < 2 for values in streams.values()):
        raise ConfigError("a run needs sources with at least two values each", sources=len(streams))
    if subscriptions < len(streams):
        raise ConfigError("outside its limits", field="subscriptions", value=subscriptions, lowest=len(streams))
    return chosen


CRASHES = 0.5
"""share of leaving nodes that crash"""


@dataclass
class ChurnCosts:
    """Additional costs of churn, per interval on average.

    handed: messages that move thresholds and subscribers between nodes
    registered: messages with which subscribers register again
    copied: messages that update a copy at the next node
    missed: deliveries that did not arrive, as a share of those due
    extra: deliveries that were not needed, as a share of those due
    astray: share of subscribers whose value differs from the source by more than their threshold
    """

    handed: float = 0.0
    registered: float = 0.0
    copied: float = 0.0
    missed: float = 0.0
    extra: float = 0.0
    astray: float = 0.0

    def document(self) -> dict[str, float]:
        """Return all values by name."""
        return asdict(self)


def churn(
    nodes: int,
    values: Numbers,
    subscriptions: int,
    share: float,
    scheme: str = "SRI",
    copies: bool = False,
    seed: int = 1,
    model: Model = PINNED,
) -> ChurnCosts:
    """Simulate one source on a ring of which this share of nodes is replaced in every interval.

    >>> walk = np.cumsum(np.random.default_rng(1).integers(-3, 4, 60))
    >>> quiet, busy = (churn(100, walk, 300, share) for share in (0.0, 0.1))
    >>> quiet == ChurnCosts(), busy.missed > 0, busy.handed > 0
    (True, True, True)
    """
    if not 0 <= share <= 0.5:
        raise ConfigError("outside its limits", field="share", value=share, lowest=0, highest=0.5)
    if scheme not in SCHEMES:
        raise ConfigError("unknown scheme", scheme=scheme, choose_from=list(SCHEMES))
    site = sites(Ring.random(nodes, seed, model.bits), ["source"], subscriptions, seed, model)[0]
    simulation = _ChurnSimulation(site, int(values[0]), scheme, copies, np.random.default_rng([seed, nodes, 1]))
    for value in values[1:]:
        simulation.run_interval(int(value), share)
    return simulation.costs()


class _ChurnSimulation:
    """State of a run: positions of nodes, values of filters and subscribers."""

    def __init__(self, site: SourceSite, value: int, scheme: str, copies: bool, rng: np.random.Generator) -> None:
        self.site, self.copies, self.rng = site, copies, rng
        self.stateless = scheme == "SRI"
        self.ring = site.ring
        self.keys = site.ring.ids[site.processors]
        self.publisher = int(site.ring.ids[site.publisher])
        self.homes = site.ring.ids[site.demands.nodes]
        self.ranks = site.ranks(site.demands.thresholds)
        self.weights = np.bincount(self.ranks, minlength=len(site.thresholds))
        self.below, self.places = _below(site, scheme)
        self.centres = np.full(len(site.thresholds), value, dtype=np.int64)
        self.held = self.centres.copy()
        self.known = np.ones(len(site.thresholds), dtype=bool)
        self.counts = ChurnCosts()
        self.intervals, self.due = 0, 0

    def run_interval(self, value: int, share: float) -> None:
        """Publish one value while nodes leave and join."""
        owners = self._owners()
        gone, crashed, after = self._changed(round(share * len(self.ring)))
        dead = np.isin(owners, crashed)
        lost: NDArray[np.bool_] = np.any(self.below & dead, axis=1)
        self._deliver(value, lost)
        self.ring = Ring(after, self.ring.bits)
        self.counts.handed += int(np.count_nonzero((self._owners() != owners) & ~dead))
        self._register(gone, dead)
        self._repair(lost)
        self.intervals += 1

    def costs(self) -> ChurnCosts:
        """Return the averages."""
        counts, due, intervals = self.counts, max(self.due, 1), max(self.intervals, 1)
        messages = (counts.handed / intervals, counts.registered / intervals, counts.copied / intervals)
        subscribers = intervals * int(self.weights.sum())
        return ChurnCosts(*messages, counts.missed / due, counts.extra / due, counts.astray / subscribers)

    def _owners(self) -> Numbers:
        """Return the ids of the nodes that store the thresholds."""
        return self.ring.ids[self.ring.successors(self.keys)]

    def _changed(self, count: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return the ids of leaving nodes, of crashed ones, and of all nodes afterwards."""
        candidates = self.ring.ids[self.ring.ids != self.publisher]
        gone = self.rng.choice(candidates, min(count, len(candidates)), replace=False)
        crashed = gone[: round(CRASHES * len(gone))]
        joined = free_ids(self.rng, len(gone), self.ring.ids, self.ring.bits)
        return gone, crashed, np.union1d(np.setdiff1d(self.ring.ids, gone), joined)

    def _deliver(self, value: int, lost: NDArray[np.bool_]) -> None:
        reach = self.site.thresholds
        due = np.abs(value - self.held) > reach
        fired = ~self.known | (np.abs(value - self.centres) > reach)
        arrived = fired & ~lost
        self.due += int(self.weights @ due)
        self.counts.missed += int(self.weights @ (due & ~arrived))
        self.counts.extra += int(self.weights @ (arrived & ~due))
        self.counts.copied += int(np.count_nonzero(arrived)) if self.copies and not self.stateless else 0
        self.held[arrived] = value
        self.centres[fired if self.stateless else arrived] = value
        self.known |= arrived
        self.counts.astray += int(self.weights @ (np.abs(value - self.held) > reach))

    def _register(self, gone: Numbers, dead: NDArray[np.bool_]) -> None:
        """Move subscribers whose node left; register again those whose processor crashed without a copy."""
        moved = np.isin(self.homes, gone)
        self.homes[moved] = self.rng.choice(self.ring.ids, int(np.count_nonzero(moved)))
        lost = np.zeros_like(moved) if self.copies else dead[self.places][self.ranks]
        again = moved | lost
        starts = self.ring.successors(self.homes[again])
        ends = self.ring.successors(self.keys[self.places][self.ranks[again]])
        self.counts.registered += int(hops(self.ring, starts, ends).sum()) if again.any() else 0
        self.counts.copied += int(np.count_nonzero(again)) if self.copies else 0

    def _repair(self, lost: NDArray[np.bool_]) -> None:
        if self.stateless:
            self.held[lost] = self.centres[lost]
        elif not self.copies:
            self.known &= ~lost


def _below(site: SourceSite, scheme: str) -> tuple[NDArray[np.bool_], Numbers]:
    """Return which processors an event passes for each threshold (one row each), and where each is stored."""
    traffic = SCHEMES[scheme](site, np.zeros(2, dtype=np.int64))
    found = np.zeros((len(site.thresholds), len(site.processors)), dtype=bool)
    for rank, chain in enumerate(traffic.chains):
        found[rank, list(chain)] = True
    return found, traffic.places
