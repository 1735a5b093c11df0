"""A source on the ring: who publishes it, who keeps its thresholds, who subscribes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Numbers, Ring, key_of
from thinwire_lab.overlay_sim.chord.ring_routes import Routes, routes
from thinwire_lab.overlay_sim.dissemination.cost_model import PINNED, Model


@dataclass(frozen=True)
class Demands:
    """Subscriptions of one source: the node and the threshold of each."""

    nodes: Numbers
    thresholds: Numbers

    def __post_init__(self) -> None:
        if len(self.nodes) != len(self.thresholds) or not len(self.nodes):
            raise ConfigError("a subscription has a node and a threshold", nodes=len(self.nodes))
        if self.thresholds.min() < 0:
            raise ConfigError("outside its limits", field="threshold", value=int(self.thresholds.min()), lowest=0)

    @classmethod
    def random(cls, ring: Ring, count: int, rng: np.random.Generator, largest: int = PINNED.largest) -> Demands:
        """So many subscriptions of any node, with any threshold from 1 to the largest."""
        return cls(rng.integers(0, len(ring), count), rng.integers(1, largest + 1, count))


@dataclass(frozen=True)
class Site:
    """Where everything of a source is.

    publisher: a node
    processors: nodes, clockwise
    thresholds: the distinct ones that are asked for, ascending
    """

    ring: Ring
    publisher: int
    processors: Numbers
    thresholds: Numbers
    demands: Demands
    model: Model = PINNED

    @classmethod
    def at(cls, ring: Ring, name: str, publisher: int, demands: Demands, model: Model = PINNED) -> Site:
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
