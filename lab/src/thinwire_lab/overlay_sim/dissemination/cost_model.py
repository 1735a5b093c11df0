"""Assumptions and results of the cost model. All assumptions are here, so that figures of different runs are
comparable.

The publication does not define them. Where a choice has an advantage for one scheme, it favours the published ones: a
multicast is as cheap as Chord allows, and the filters of a scheme are registered before the first event.

- The thresholds of a source are stored by `processors` neighbouring nodes, starting at the owner of the hash of its
  name. They are distributed in order, so that neighbouring thresholds are on neighbouring nodes. The filters of MFD and
  MCF are distributed by level, which suits them better. The publisher is any node.
- A multicast costs the distinct nodes on the greedy Chord routes to its receivers, without the sender.
- Filters of one node that forward the same event send one multicast together.
- A delivery of a threshold goes from its processor to its subscribers as one multicast; thresholds that fire together
  are not merged.
- All thresholds are centred at the first value of a stream; events are counted from the second one.
- MFD decomposes in base `base`, least digit first. MCF has two levels, is decomposed for steps of `step` ticks, and has
  a separate upper filter for each chain: the shared one misses deliveries.
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

    largest: subscribed thresholds are 1 to this, in ticks
    steepness: largest step of the synthetic attack stream
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


PINNED = Model()
"""parameters of all published figures"""


@dataclass
class SchemeCounts:
    """Counters of a scheme while sources are added."""

    loads: Numbers
    state: Numbers
    events: int = 0
    subscriptions: int = 0
    registered: int = 0
    maintained: int = 0
    delivered: int = 0
    deliveries: int = 0
    hops: int = 0
    length: int = 0


@dataclass(frozen=True)
class SchemeCosts:
    """Averages of a scheme, and the load of the busiest nodes.

    subscription: messages per subscription
    maintenance, delivery: messages per event
    latency: hops from the publisher to a subscriber, per delivery
    length: deliveries of thresholds, per event
    messages_max, messages_p99: messages that a node receives, per event of any source
    state_max, state_p99: entries that a node stores
    """

    subscription: float
    maintenance: float
    delivery: float
    latency: float
    length: float
    messages_max: float
    messages_p99: float
    state_max: float
    state_p99: float

    @property
    def total(self) -> float:
        """Messages per event, to processors and to subscribers."""
        return self.maintenance + self.delivery

    def document(self) -> dict[str, float]:
        """Return all values by name."""
        return {**asdict(self), "total": self.total}


def costs(tally: SchemeCounts) -> SchemeCosts:
    """Return the averages of the counters."""
    events = max(tally.events, 1)
    return SchemeCosts(
        tally.registered / max(tally.subscriptions, 1),
        tally.maintained / events,
        tally.delivered / events,
        tally.hops / max(tally.deliveries, 1),
        tally.length / events,
        float(tally.loads.max()) / events,
        float(np.percentile(tally.loads, 99)) / events,
        float(tally.state.max()),
        float(np.percentile(tally.state, 99)),
    )
