"""What a run cost: messages, hops, and the load of the nodes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from thinwire_lab.overlay_sim.chord.ring import Numbers


@dataclass
class Tally:
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
class Costs:
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


def costs(tally: Tally) -> Costs:
    """The averages of what was counted."""
    events = max(tally.events, 1)
    return Costs(
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
