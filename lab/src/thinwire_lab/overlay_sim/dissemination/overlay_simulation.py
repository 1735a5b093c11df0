"""Simulation of dissemination on a ring: the costs of each scheme (`schemes`), without and with churn.

Churn. In every interval one value is published; a share of the nodes leaves, half of them by a crash, and as many nodes
join. A crash is detected at the end of the interval. Until then no event reaches the thresholds on the crashed node or
those whose path contains it. Then the next node on the ring takes over the thresholds. With a copy of the state it
continues from the same state. Without a copy the node has no subscribers until they register again, and no centres, so
it delivers the next value to all subscribers and uses the value as the centre. If the interval index is at the
publisher (SRI), a crashed processor loses no state, and a subscriber that registers again gets the value that the other
subscribers of its threshold have.

Not counted: maintenance of the ring itself, which is equal for all schemes, and messages that are sent again because a
node on their route has crashed. All schemes are assumed to deliver what OnlineGreedy does. The publisher does not
leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Numbers, Ring, free_ids, hops
from thinwire_lab.overlay_sim.dissemination.cost_model import DEFAULT_MODEL, Model, SchemeCosts, SchemeCounts
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
    model: Model = DEFAULT_MODEL,
) -> dict[str, SchemeCosts]:
    """Return the costs of each scheme for sources with values and a total number of subscriptions on a random ring.

    >>> walk = np.cumsum(np.random.default_rng(1).integers(-3, 4, 200))
    >>> found = simulate(100, {"walk": walk}, 600, ["SF", "SRI"])
    >>> found["SRI"].maintenance < found["SF"].maintenance / 5, found["SRI"].delivery == found["SF"].delivery
    (True, True)
    """
    counts = {name: SchemeCounts(*np.zeros((2, nodes), dtype=np.int64)) for name in _checked(schemes)}
    _check_streams(streams, subscriptions)
    ring = Ring.random(nodes, seed, model.bits)
    for site, values in zip(sites(ring, list(streams), subscriptions, seed, model), streams.values(), strict=True):
        trees: dict[bytes, DeliveryTrees] = {}
        for name, count in counts.items():
            traffic = SCHEMES[name](site, values)
            # Most schemes store thresholds at the same processors and then deliver by the same trees.
            key = traffic.processor_of.tobytes()
            trees[key] = trees.get(key) or delivery_trees(site, traffic.processor_of)
            _add_source(count, site, traffic, trees[key], len(values) - 1)
    return {name: count.costs() for name, count in counts.items()}


def sites(
    ring: Ring, names: Sequence[str], subscriptions: int, seed: int, model: Model = DEFAULT_MODEL
) -> list[SourceSite]:
    """Return a site for each source. All sources get equally many subscriptions; the first ones get the remainder."""
    rng = np.random.default_rng([seed, len(ring)])
    counts = [subscriptions // len(names) + (n < subscriptions % len(names)) for n in range(len(names))]
    return [
        SourceSite.at(
            ring, name, int(rng.integers(len(ring))), SourceDemands.random(ring, count, rng, model.largest), model
        )
        for name, count in zip(names, counts, strict=True)
    ]


def _add_source(
    counts: SchemeCounts, site: SourceSite, traffic: SiteTraffic, trees: DeliveryTrees, events: int
) -> None:
    """Add the traffic of a source, which has published this number of events, to the counters of a scheme."""
    nodes = np.concatenate([[site.publisher], site.processors])
    counts.events += events
    counts.subscriptions += len(site.demands.nodes)
    counts.registration += trees.registration + traffic.setup_messages
    counts.maintenance += count_messages(site.routes, traffic.multicasts, counts.loads) + int(traffic.replies.sum())
    counts.delivery += int(traffic.fired @ trees.messages)
    counts.fired_thresholds += int(traffic.fired.sum())
    counts.deliveries += int(traffic.fired @ trees.subscribers)
    counts.hops += int(traffic.fired @ (trees.hops + traffic.path_hops(site) * trees.subscribers))
    counts.loads += trees.loads(traffic.fired, len(counts.loads))
    np.add.at(counts.loads, nodes, traffic.replies)
    np.add.at(counts.state, nodes, traffic.entries)
    np.add.at(counts.state, site.processors[traffic.processor_of[site.ranks(site.demands.thresholds)]], 1)


def _checked(schemes: Iterable[str]) -> list[str]:
    names = list(schemes)
    if unknown := [name for name in names if name not in SCHEMES]:
        raise ConfigError("unknown scheme", scheme=unknown[0], choose_from=list(SCHEMES))
    return names


def _check_streams(streams: Mapping[str, Numbers], subscriptions: int) -> None:
    if not streams or any(len(values) < 2 for values in streams.values()):
        raise ConfigError("a simulation needs sources with at least two values each", sources=len(streams))
    if subscriptions < len(streams):
        raise ConfigError(
            "fewer subscriptions than sources", field="subscriptions", value=subscriptions, lowest=len(streams)
        )


CRASHES = 0.5
"""share of leaving nodes that crash"""


@dataclass
class ChurnCosts:
    """Additional costs of churn, per interval on average.

    handovers: messages that move thresholds and their subscribers between nodes
    registrations: messages with which subscribers register again
    copies: messages that update the copy of the state at the next node
    missed: deliveries that did not arrive, as a share of those due
    unnecessary: deliveries that were not due, as a share of those due
    beyond_threshold: share of subscribers whose value differs from the source's by more than their threshold
    """

    handovers: float = 0.0
    registrations: float = 0.0
    copies: float = 0.0
    missed: float = 0.0
    unnecessary: float = 0.0
    beyond_threshold: float = 0.0

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
    model: Model = DEFAULT_MODEL,
) -> ChurnCosts:
    """Simulate churn for one source on a ring.

    share: share of the nodes that are replaced in every interval
    copies: whether the next node on the ring stores a copy of the state of each processor

    >>> walk = np.cumsum(np.random.default_rng(1).integers(-3, 4, 60))
    >>> quiet, busy = (churn(100, walk, 300, share) for share in (0.0, 0.1))
    >>> quiet == ChurnCosts(), busy.missed > 0, busy.handovers > 0
    (True, True, True)
    """
    if not 0 <= share <= 0.5:
        raise ConfigError("outside its limits", field="share", value=share, lowest=0, highest=0.5)
    _checked([scheme])
    site = sites(Ring.random(nodes, seed, model.bits), ["source"], subscriptions, seed, model)[0]
    simulation = _ChurnSimulation(site, int(values[0]), scheme, copies, np.random.default_rng([seed, nodes, 1]))
    for value in values[1:]:
        simulation.run_interval(int(value), share)
    return simulation.costs()


class _ChurnSimulation:
    """State of a simulation with churn. Arrays are by rank of the threshold if nothing else is stated.

    processor_keys: keys that determine the nodes of processors, by index of the processor
    subscriber_ids: id of the node of each subscription; ranks: rank of the threshold of each subscription
    weights: number of subscriptions
    passed: which processors an event passes on its path, one row per threshold
    centres: centre of each threshold at its processor; has_centre: whether the processor has one
    received: value that the subscribers have
    due: deliveries that OnlineGreedy requires so far
    """

    def __init__(self, site: SourceSite, value: int, scheme: str, copies: bool, rng: np.random.Generator) -> None:
        self.site, self.copies, self.rng = site, copies, rng
        self.index_at_publisher = scheme == "SRI"
        self.ring = site.ring
        self.processor_keys = site.ring.ids[site.processors]
        self.publisher_id = int(site.ring.ids[site.publisher])
        self.subscriber_ids = site.ring.ids[site.demands.nodes]
        self.ranks = site.ranks(site.demands.thresholds)
        self.weights = np.bincount(self.ranks, minlength=len(site.thresholds))
        self.passed, self.processor_of = _passed_processors(site, scheme)
        self.centres = np.full(len(site.thresholds), value, dtype=np.int64)
        self.received = self.centres.copy()
        self.has_centre = np.ones(len(site.thresholds), dtype=bool)
        self.counts = ChurnCosts()
        self.intervals, self.due = 0, 0

    def run_interval(self, value: int, share: float) -> None:
        """Publish one value while nodes leave and join."""
        owners = self._owners()
        departed, crashed, current = self._replace_nodes(round(share * len(self.ring)))
        has_crashed = np.isin(owners, crashed)
        unreachable: NDArray[np.bool_] = np.any(self.passed & has_crashed, axis=1)
        self._deliver(value, unreachable)
        self.ring = Ring(current, self.ring.bits)
        self.counts.handovers += int(np.count_nonzero((self._owners() != owners) & ~has_crashed))
        self._register(departed, has_crashed)
        if self.index_at_publisher:
            self.received[unreachable] = self.centres[unreachable]
        elif not self.copies:
            self.has_centre &= ~unreachable
        self.intervals += 1

    def costs(self) -> ChurnCosts:
        """Return the averages."""
        counts, due, intervals = self.counts, max(self.due, 1), max(self.intervals, 1)
        messages = (counts.handovers / intervals, counts.registrations / intervals, counts.copies / intervals)
        subscribers = intervals * int(self.weights.sum())
        return ChurnCosts(
            *messages, counts.missed / due, counts.unnecessary / due, counts.beyond_threshold / subscribers
        )

    def _owners(self) -> Numbers:
        """Return the ids of the nodes that are the processors."""
        return self.ring.ids[self.ring.successors(self.processor_keys)]

    def _replace_nodes(self, count: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return the ids of nodes that leave, of those among them that crash, and of all nodes afterwards."""
        candidates = self.ring.ids[self.ring.ids != self.publisher_id]
        departed = self.rng.choice(candidates, min(count, len(candidates)), replace=False)
        crashed = departed[: round(CRASHES * len(departed))]
        joined = free_ids(self.rng, len(departed), self.ring.ids, self.ring.bits)
        return departed, crashed, np.union1d(np.setdiff1d(self.ring.ids, departed), joined)

    def _deliver(self, value: int, unreachable: NDArray[np.bool_]) -> None:
        """Deliver a value to the thresholds that fire and that the value reaches."""
        thresholds = self.site.thresholds
        due = np.abs(value - self.received) > thresholds
        fires = ~self.has_centre | (np.abs(value - self.centres) > thresholds)
        arrives = fires & ~unreachable
        self.due += int(self.weights @ due)
        self.counts.missed += int(self.weights @ (due & ~arrives))
        self.counts.unnecessary += int(self.weights @ (arrives & ~due))
        self.counts.copies += int(np.count_nonzero(arrives)) if self.copies and not self.index_at_publisher else 0
        self.received[arrives] = value
        self.centres[fires if self.index_at_publisher else arrives] = value
        self.has_centre |= arrives
        self.counts.beyond_threshold += int(self.weights @ (np.abs(value - self.received) > thresholds))

    def _register(self, departed: Numbers, has_crashed: NDArray[np.bool_]) -> None:
        """Move subscribers whose node left; register again those whose processor crashed without a copy."""
        moved = np.isin(self.subscriber_ids, departed)
        self.subscriber_ids[moved] = self.rng.choice(self.ring.ids, int(np.count_nonzero(moved)))
        lost = np.zeros_like(moved) if self.copies else has_crashed[self.processor_of][self.ranks]
        registered = moved | lost
        starts = self.ring.successors(self.subscriber_ids[registered])
        ends = self.ring.successors(self.processor_keys[self.processor_of][self.ranks[registered]])
        self.counts.registrations += int(hops(self.ring, starts, ends).sum()) if registered.any() else 0
        self.counts.copies += int(np.count_nonzero(registered)) if self.copies else 0


def _passed_processors(site: SourceSite, scheme: str) -> tuple[NDArray[np.bool_], Numbers]:
    """Return which processors an event passes for each threshold (one row each), and the processor of each."""
    traffic = SCHEMES[scheme](site, np.zeros(2, dtype=np.int64))
    passed = np.zeros((len(site.thresholds), len(site.processors)), dtype=bool)
    for rank, path in enumerate(traffic.paths):
        passed[rank, list(path)] = True
    return passed, traffic.processor_of
