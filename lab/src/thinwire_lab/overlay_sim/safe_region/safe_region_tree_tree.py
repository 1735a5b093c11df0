"""A whole safe-region tree on a simulated network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.safe_region.safe_region_tree import Leaf
from thinwire_lab.overlay_sim.safe_region.safe_region_tree_messages import Event, Interval, Join, Leave
from thinwire_lab.overlay_sim.safe_region.safe_region_tree_network import Network
from thinwire_lab.overlay_sim.safe_region.safe_region_tree_node import Node

ROOT = "root"


class Tree:
    """Thresholds in order, a few a leaf, `fan_out` children a node.

    node: what inner nodes are made of
    """

    def __init__(
        self,
        thresholds: Iterable[int],
        value: int,
        seed: int,
        fan_out: int = 4,
        leaf_size: int = 2,
        longest: int = 5,
        node: type[Node] = Node,
    ) -> None:
        wanted = sorted(set(thresholds))
        if not wanted or fan_out < 2 or leaf_size < 1:
            raise ConfigError("a tree needs a threshold, two children a node and one a leaf", thresholds=len(wanted))
        self.network = Network(seed, longest)
        self.leaves: list[Leaf] = []
        self.number, self.value = 0, value
        self._fan_out, self._leaf_size, self._node = fan_out, leaf_size, node
        self._build(ROOT, None, wanted)

    def publish(self, value: int) -> None:
        """The next value of the source."""
        self.number, self.value = self.number + 1, value
        self.network.tell(ROOT, Event(self.number, value))

    def join(self, threshold: int) -> None:
        """A newcomer with this threshold."""
        self.number += 1
        self._lead(threshold)
        self.network.tell(ROOT, Join(self.number, self.value, threshold))

    def leave(self, threshold: int) -> None:
        """Nobody wants this threshold any more."""
        self.network.tell(ROOT, Leave(threshold))

    def settle(self) -> None:
        """Wait until nothing is on its way."""
        self.network.run()

    @property
    def delivered(self) -> dict[int, list[tuple[int, int]]]:
        """Threshold -> number and value of what was delivered."""
        return {c: found for leaf in self.leaves for c, found in leaf.delivered.items()}

    def _build(self, name: str, parent: str | None, thresholds: Sequence[int]) -> Interval:
        if parent is not None and len(thresholds) <= self._leaf_size:
            leaf = self.network.actors[name] = Leaf(parent, thresholds, self.value)
            self.leaves.append(leaf)
            return leaf.safe
        parts = {f"{name}.{n}": part for n, part in enumerate(_parts(thresholds, self._fan_out, self._leaf_size))}
        children = {child: self._build(child, name, part) for child, part in parts.items()}
        node = self.network.actors[name] = self._node(parent, children, _leads(parts))
        return node.safe

    def _lead(self, threshold: int) -> None:
        """A new threshold goes the way of the nearest one: every node on that way learns where it is to go."""
        name: str = ROOT
        while isinstance(node := self.network.actors[name], Node):
            nearest = min(node.leads, key=lambda c: (abs(c - threshold), c))
            name = node.leads.setdefault(threshold, node.leads[nearest])


def _leads(parts: Mapping[str, Sequence[int]]) -> dict[int, str]:
    return {threshold: child for child, part in parts.items() for threshold in part}


def _parts(thresholds: Sequence[int], fan_out: int, leaf_size: int) -> list[Sequence[int]]:
    """Neighbours stay together: at most `fan_out` parts, none smaller than a leaf but the last.

    >>> _parts([1, 2, 3, 4, 5], 4, 2)
    [[1, 2], [3, 4], [5]]
    """
    size = max(leaf_size, -(-len(thresholds) // fan_out))
    return [thresholds[at : at + size] for at in range(0, len(thresholds), size)]
