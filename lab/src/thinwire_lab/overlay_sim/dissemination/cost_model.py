"""What the cost model assumes; all of it in this one place, so that figures of different runs can be compared.

The publication leaves these open. Where a choice favours somebody, it favours the schemes ours is compared with: a
multicast is as cheap as Chord allows, and a scheme's own filters are registered before the first event.

- A source's thresholds are kept by `processors` neighbouring nodes, from the owner of the hash of its name on; they are
  dealt out in order, so that neighbours in threshold are neighbours on the ring; the filters of MFD and MCF are dealt
  out level by level, which serves them better. The publisher is any node.
- A multicast costs the distinct nodes on the greedy Chord routes to its receivers, the sender left out.
- Filters of one node that pass on the same event send one multicast together.
- What a threshold delivers goes from its processor to its subscribers as one multicast; thresholds that fire together
  are not merged.
- All thresholds are centred at the first value of a stream; events are counted from the second on.
- MFD decomposes in base `base`, least digit first. MCF has two levels, is decomposed for steps of `step` ticks, and has
  a private upper filter for each chain: the shared one misses deliveries.
- The safe-region tree has `fan_out` children a node; inner nodes live with the first processor below them, the root
  with the publisher. An advert goes straight to the parent: one message.
- The interval index lives with the publisher.
- A node's messages are those it receives. A node's state is its filters, intervals and adverts, and its subscribers.

What a run cost: messages, hops, and the load of the nodes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Numbers


@dataclass(frozen=True)
class Model:
    """The choices that are numbers.

    largest: thresholds asked for are 1 to this, in ticks
    steepness: of the synthetic attack, the largest step
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
"""what every published figure of ours was made with"""


@dataclass
class SchemeCounts:
    """Counts of a scheme while sources are added."""

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
    """Averages of a scheme, and what the busiest nodes bear.

    subscription: messages a subscription
    maintenance, delivery: messages an event
    latency: hops from the publisher to a subscriber, a delivery
    length: deliveries of thresholds, an event
    messages_max, messages_p99: messages a node receives, an event of any source
    state_max, state_p99: entries a node keeps
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
        """Messages an event, to processors and to subscribers."""
        return self.maintenance + self.delivery

    def document(self) -> dict[str, float]:
        """Everything by name."""
        return {**asdict(self), "total": self.total}


def costs(tally: SchemeCounts) -> SchemeCosts:
    """The averages of what was counted."""
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
