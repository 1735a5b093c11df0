"""Assumptions and results of the cost model. All assumptions are here, so that figures of different runs are
comparable.

The schemes are those of `schemes`. SF, MFD and MCF are published: L. Chen, Conformance Preserving Data Dissemination
for Large-Scale Peer to Peer Systems, dissertation, 2011. The dissertation does not define these assumptions. Where a
choice has an advantage for one scheme, it favours the published ones: a multicast is as cheap as Chord allows, and the
filters of a scheme are registered before the first event.

- The thresholds of a source are stored by neighbouring nodes, its *processors*, starting at the owner of the hash of
  the source's name. Thresholds are distributed in order, so that neighbouring thresholds are on neighbouring nodes. The
  filters of MFD and MCF are distributed by level, which suits these schemes better. The publisher is a random node.
- A multicast costs the distinct nodes on the greedy Chord routes to its receivers, without the sender.
- Filters of one node that forward the same event send one multicast together.
- If a threshold fires, its processor sends one multicast to the subscribers of the threshold; multicasts of several
  thresholds are not merged.
- All thresholds are centred at the first value of a stream; events are counted from the second one.
- MFD decomposes in base `base`, least digit first. MCF has two levels, is decomposed for steps of `step` ticks, and has
  a separate upper filter for each threshold, because a shared upper filter misses deliveries.
- The safe-region tree has `fan_out` children per node. Inner nodes are on the host of their first processor, the root
  on that of the publisher. An advert is one message to the parent.
- The interval index is at the publisher.
- The messages of a node are those it receives. Its state is its filters, intervals, adverts and subscribers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Numbers


@dataclass(frozen=True)
class Model:
    """Parameters of the cost model.

    processors: maximum number of nodes that store the thresholds of a source
    fan_out: children of a node of the safe-region tree
    base: base of the digits of MFD
    step: largest difference of consecutive values for which MCF is decomposed, in ticks
    largest: largest subscribed threshold in ticks; the smallest is 1
    steepness: largest step of the synthetic attack stream in ticks
    bits: bits of ids and keys of the ring
    """

    processors: int = 32
    fan_out: int = 4
    base: int = 4
    step: int = 1
    largest: int = 63
    steepness: int = 4
    bits: int = 32

    def __post_init__(self) -> None:
        limits = {"processors": 1, "fan_out": 2, "base": 2, "step": 0, "largest": 1, "steepness": 1, "bits": 1}
        for name, lowest in limits.items():
            if getattr(self, name) < lowest:
                raise ConfigError("outside its limits", field=name, value=getattr(self, name), lowest=lowest)


DEFAULT_MODEL = Model()
"""parameters of all reproduced figures"""


@dataclass
class SchemeCounts:
    """Counters of a scheme, to which sources are added one after the other.

    loads: messages that each node receives
    state: entries that each node stores
    registration, maintenance, delivery: messages to register subscriptions; to and among processors; to subscribers
    fired_thresholds: thresholds that fire, summed over events
    deliveries: deliveries to subscribers
    hops: hops from the publisher to the subscriber, summed over deliveries
    """

    loads: Numbers
    state: Numbers
    events: int = 0
    subscriptions: int = 0
    registration: int = 0
    maintenance: int = 0
    delivery: int = 0
    fired_thresholds: int = 0
    deliveries: int = 0
    hops: int = 0

    def costs(self) -> SchemeCosts:
        """Return the averages and the load of the busiest nodes."""
        events = max(self.events, 1)
        return SchemeCosts(
            self.registration / max(self.subscriptions, 1),
            self.maintenance / events,
            self.delivery / events,
            self.hops / max(self.deliveries, 1),
            self.fired_thresholds / events,
            float(self.loads.max()) / events,
            float(np.percentile(self.loads, 99)) / events,
            float(self.state.max()),
            float(np.percentile(self.state, 99)),
        )


@dataclass(frozen=True)
class SchemeCosts:
    """Averages of a scheme, and the load of the busiest nodes.

    subscription: messages to register a subscription
    maintenance, delivery: messages per event to and among processors; to subscribers
    latency: hops from the publisher to a subscriber, mean over deliveries
    fired_thresholds: thresholds that fire per event
    messages_max, messages_p99: messages that a node receives, per event of any source
    state_max, state_p99: entries that a node stores: filters, intervals, adverts and subscribers
    """

    subscription: float
    maintenance: float
    delivery: float
    latency: float
    fired_thresholds: float
    messages_max: float
    messages_p99: float
    state_max: float
    state_p99: float

    @property
    def total(self) -> float:
        """All messages per event."""
        return self.maintenance + self.delivery

    def document(self) -> dict[str, float]:
        """Return all values by name."""
        return {**asdict(self), "total": self.total}
