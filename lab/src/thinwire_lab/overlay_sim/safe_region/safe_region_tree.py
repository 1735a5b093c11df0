"""Safe-region tree on a simulated network: messages, leaves and inner nodes.

Every leaf stores some thresholds of a source. Each node advertises to its parent its *safe interval*, in which no
threshold below the node fires, so an event goes only to nodes below which a threshold may fire. Messages in flight are
never assumed to have arrived. Leaves deliver exactly what OnlineGreedy (`greedy`) does. Messages on one link arrive in
order; messages on different links in any order.

>>> tree = Tree([3, 8, 20, 40], value=0, seed=1, fan_out=2)
>>> for value in (4, 9, 30):
...     tree.publish(value)
>>> tree.wait_until_idle()
>>> tree.delivered[3], tree.delivered[8], tree.delivered[40]
([(1, 4), (2, 9), (3, 30)], [(2, 9), (3, 30)], [])
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.discrete_events import EventScheduler

LIMIT = 2**62
"""end of an interval without limit: larger than all values, which are 64-bit ticks"""


class Interval(NamedTuple):
    """Values from low to high, both included."""

    low: int
    high: int

    def contains(self, value: int) -> bool:
        """Return whether the value is inside."""
        return self.low <= value <= self.high


EVERYTHING = Interval(-LIMIT, LIMIT)
"""safe interval of a node without thresholds"""


def intersect(intervals: Iterable[Interval]) -> Interval:
    """Return the intersection of intervals.

    >>> intersect([Interval(0, 9), Interval(4, 12)]), intersect([]) == EVERYTHING
    (Interval(low=4, high=9), True)
    """
    bounded = [EVERYTHING, *intervals]
    return Interval(max(i.low for i in bounded), min(i.high for i in bounded))


class Event(NamedTuple):
    """Downwards: a value with a number that the root assigns."""

    number: int
    value: int


class Join(NamedTuple):
    """Downwards: a new threshold for its leaf, with the latest value of the source.

    Joins and events have one sequence of numbers, because the order of joins and events must not change.
    """

    number: int
    value: int
    threshold: int


class Leave(NamedTuple):
    """Downwards: a removed threshold. The safe interval can only grow, so no advert is needed immediately."""

    threshold: int


class Advert(NamedTuple):
    """Upwards: after all events up to this number, no threshold below fires inside the interval."""

    number: int
    safe: Interval


Message = Event | Join | Leave | Advert

OutgoingMessage = tuple[str, Message]
"""receiver and message"""


class Leaf:
    """Thresholds with the last delivered value of each.

    delivered: threshold -> number and value of all deliveries. A new subscriber gets the value that the other
        subscribers of its threshold have, with the number of its join

    >>> leaf = Leaf("parent", [2, 9], value=0)
    >>> leaf.receive("parent", Event(1, 3))
    [('parent', Advert(number=1, safe=Interval(low=1, high=5)))]
    >>> leaf.delivered
    {2: [(1, 3)], 9: []}
    """

    def __init__(self, parent: str, thresholds: Iterable[int], value: int) -> None:
        self.parent = parent
        self.last = dict.fromkeys(sorted(thresholds), value)
        self.delivered: dict[int, list[tuple[int, int]]] = {threshold: [] for threshold in self.last}

    @property
    def safe(self) -> Interval:
        """The safe interval of the leaf."""
        return intersect(Interval(z - c, z + c) for c, z in self.last.items())

    def receive(self, sender: str, message: Message) -> list[OutgoingMessage]:
        """Process a message. Return the messages to send."""
        if isinstance(message, Leave):
            self.last.pop(message.threshold, None)
            return []
        if isinstance(message, Join):
            self._join(message)
        elif isinstance(message, Event):
            self._deliver(message)
        return [(self.parent, Advert(message.number, self.safe))]

    def _deliver(self, event: Event) -> None:
        for c, z in self.last.items():
            if not z - c <= event.value <= z + c:
                self.last[c] = event.value
                self.delivered[c].append((event.number, event.value))

    def _join(self, join: Join) -> None:
        """Add a subscriber. It gets the value of the other subscribers of its threshold, or else the latest value."""
        value = self.last.setdefault(join.threshold, join.value)
        self.delivered.setdefault(join.threshold, []).append((join.number, value))


class Actor(Protocol):
    """A leaf or an inner node: processes a message and returns the messages to send."""

    def receive(self, sender: str, message: Message) -> list[OutgoingMessage]: ...


class Network:
    """Actors by name, and the messages between them.

    max_delay: maximum delay of a message in steps; delays are random, at least one step

    Attributes: `sent`, number of messages by class name.
    """

    def __init__(self, seed: int, max_delay: int = 5) -> None:
        self.max_delay = max_delay
        self.actors: dict[str, Actor] = {}
        self.sent: Counter[str] = Counter()
        self._scheduler = EventScheduler()
        self._rng = np.random.default_rng(seed)
        self._newest: defaultdict[tuple[str, str], float] = defaultdict(float)

    def deliver(self, name: str, message: Message, sender: str = "") -> None:
        """Deliver a message to an actor now, and send its replies."""
        for receiver, answer in self.actors[name].receive(sender, message):
            self._send(name, receiver, answer)

    def run(self, steps: int | None = None) -> None:
        """Run for this number of steps, or until no message is in flight."""
        self._scheduler.run(math.inf if steps is None else self._scheduler.now + steps)

    def _send(self, sender: str, receiver: str, message: Message) -> None:
        """Send a message; messages on one link arrive in order."""
        due = self._scheduler.now + int(self._rng.integers(1, self.max_delay + 1))
        due = self._newest[sender, receiver] = max(due, self._newest[sender, receiver])
        self.sent[type(message).__name__] += 1
        self._scheduler.at(due, self.deliver, receiver, message, sender)


@dataclass
class Child:
    """State of a child at its parent.

    safe: safe interval of the child's last advert
    dirty: whether a message was sent to the child after that advert, so that the advert may be outdated
    forwarded: number of the last message sent to the child
    """

    safe: Interval
    dirty: bool = False
    forwarded: int = 0


class Node:
    """Inner node: forwards events to the children that they affect.

    A child is skipped only if its advert reflects all messages sent to it. Then its thresholds have not changed since,
    and the value is inside all their intervals. Without the mark `dirty`, a value could be missed between an event and
    the advert that follows it.

    parent: None at the root
    children: name of each child -> its safe interval
    child_of: threshold -> name of the child that contains the threshold
    """

    def __init__(self, parent: str | None, children: Mapping[str, Interval], child_of: Mapping[int, str]) -> None:
        self.parent = parent
        self.children = {name: Child(safe) for name, safe in children.items()}
        self.child_of = dict(child_of)
        self.last_number = 0

    @property
    def safe(self) -> Interval:
        """The safe interval of the node, according to the adverts of its children."""
        return intersect(child.safe for child in self.children.values())

    def receive(self, sender: str, message: Message) -> list[OutgoingMessage]:
        """Process a message. Return the messages to send."""
        if isinstance(message, Advert):
            return self.advert(self.children[sender], message)
        if isinstance(message, Leave):
            return [(self.child_of[message.threshold], message)]
        self.last_number = message.number
        if isinstance(message, Join):
            return [self._forward(self.child_of[message.threshold], message)]
        affected = [name for name, child in self.children.items() if self.may_affect(child, message.value)]
        return [*(self._forward(name, message) for name in affected), *self._send_updates()]

    def may_affect(self, child: Child, value: int) -> bool:
        """Return whether a threshold below this child may fire."""
        return child.dirty or not child.safe.contains(value)

    def advert(self, child: Child, advert: Advert) -> list[OutgoingMessage]:
        """Apply an advert if it reflects all messages sent to the child; others are outdated."""
        if not child.dirty or advert.number < child.forwarded:
            return []
        child.safe, child.dirty = advert.safe, False
        return self._send_updates()

    def _forward(self, name: str, message: Event | Join) -> OutgoingMessage:
        child = self.children[name]
        child.dirty, child.forwarded = True, message.number
        return name, message

    def _send_updates(self) -> list[OutgoingMessage]:
        if self.parent is None or any(child.dirty for child in self.children.values()):
            return []
        return [(self.parent, Advert(self.last_number, self.safe))]


ROOT = "root"


class Tree:
    """A safe-region tree: thresholds in order, up to `leaf_size` per leaf, `fan_out` children per node.

    value: first value of the source
    node: class of the inner nodes
    """

    def __init__(
        self,
        thresholds: Iterable[int],
        value: int,
        seed: int,
        fan_out: int = 4,
        leaf_size: int = 2,
        max_delay: int = 5,
        node: type[Node] = Node,
    ) -> None:
        distinct = sorted(set(thresholds))
        if not distinct or fan_out < 2 or leaf_size < 1:
            raise ConfigError(
                "a tree needs a threshold, two children per node and one threshold per leaf",
                thresholds=len(distinct),
                fan_out=fan_out,
                leaf_size=leaf_size,
            )
        self.network = Network(seed, max_delay)
        self.leaves: list[Leaf] = []
        self.number, self.value = 0, value
        self._fan_out, self._leaf_size, self._node = fan_out, leaf_size, node
        self._build(ROOT, None, distinct)

    def publish(self, value: int) -> None:
        """Publish the next value of the source."""
        self.number, self.value = self.number + 1, value
        self.network.deliver(ROOT, Event(self.number, value))

    def join(self, threshold: int) -> None:
        """Add a subscriber with this threshold."""
        self.number += 1
        self._assign(threshold)
        self.network.deliver(ROOT, Join(self.number, self.value, threshold))

    def leave(self, threshold: int) -> None:
        """Remove a threshold without subscribers."""
        self.network.deliver(ROOT, Leave(threshold))

    def wait_until_idle(self) -> None:
        """Run until no message is in flight."""
        self.network.run()

    @property
    def delivered(self) -> dict[int, list[tuple[int, int]]]:
        """Number and value of all deliveries by threshold."""
        return {c: found for leaf in self.leaves for c, found in leaf.delivered.items()}

    def _build(self, name: str, parent: str | None, thresholds: Sequence[int]) -> Interval:
        if parent is not None and len(thresholds) <= self._leaf_size:
            leaf = self.network.actors[name] = Leaf(parent, thresholds, self.value)
            self.leaves.append(leaf)
            return leaf.safe
        parts = {f"{name}.{n}": part for n, part in enumerate(_parts(thresholds, self._fan_out, self._leaf_size))}
        children = {child: self._build(child, name, part) for child, part in parts.items()}
        node = self.network.actors[name] = self._node(parent, children, _child_of(parts))
        return node.safe

    def _assign(self, threshold: int) -> None:
        """Assign a new threshold to the leaf of the nearest one, in every node on the path."""
        name: str = ROOT
        while isinstance(node := self.network.actors[name], Node):
            nearest = min(node.child_of, key=lambda c: (abs(c - threshold), c))
            name = node.child_of.setdefault(threshold, node.child_of[nearest])


def _child_of(parts: Mapping[str, Sequence[int]]) -> dict[int, str]:
    return {threshold: child for child, part in parts.items() for threshold in part}


def _parts(thresholds: Sequence[int], fan_out: int, leaf_size: int) -> list[Sequence[int]]:
    """Return at most `fan_out` parts of the thresholds, in order, none smaller than a leaf except the last part.

    >>> _parts([1, 2, 3, 4, 5], 4, 2)
    [[1, 2], [3, 4], [5]]
    """
    size = max(leaf_size, -(-len(thresholds) // fan_out))
    return [thresholds[at : at + size] for at in range(0, len(thresholds), size)]
