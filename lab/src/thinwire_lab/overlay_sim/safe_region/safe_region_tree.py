"""A leaf of the safe-region tree: keeps thresholds, delivers exactly what OnlineGreedy would.

What travels in a safe-region tree.

Links with delays: what is sent on a link arrives in order, what is sent on two links in any order.

An inner node of the safe-region tree: two numbers and two marks for each child.

A whole safe-region tree on a simulated network.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.discrete_events import Kernel

LIMIT = 2**62
"""beyond every value: ticks are 64-bit integers"""


class Interval(NamedTuple):
    """Values from low to high, both included."""

    low: int
    high: int

    def holds(self, value: int) -> bool:
        """Is the value inside?"""
        return self.low <= value <= self.high


EVERYTHING = Interval(-LIMIT, LIMIT)
"""where nothing fires, whatever comes: no threshold is below"""


def common(intervals: Iterable[Interval]) -> Interval:
    """What lies in all of them.

    >>> common([Interval(0, 9), Interval(4, 12)]), common([]) == EVERYTHING
    (Interval(low=4, high=9), True)
    """
    every = [EVERYTHING, *intervals]
    return Interval(max(i.low for i in every), min(i.high for i in every))


class Event(NamedTuple):
    """Down: a value, numbered by the root."""

    number: int
    value: int


class Join(NamedTuple):
    """Down: a new threshold, on its way to the leaf that is to keep it; numbered as an event is, since it must overtake
    none and be overtaken by none. `value` is the newest at that number."""

    number: int
    value: int
    threshold: int


class Leave(NamedTuple):
    """Down: a threshold nobody asks for any more. The interval can only grow, so nobody hurries to tell."""

    threshold: int


class Advert(NamedTuple):
    """Up: having seen all events up to this number, nothing below fires inside the interval."""

    number: int
    safe: Interval


Message = Event | Join | Leave | Advert

Sent = tuple[str, Message]
"""to whom, what"""


class Leaf:
    """Some thresholds, and what was delivered last for each.

    delivered: threshold -> number and value of all that was delivered; a newcomer is handed the value its threshold is
    centred at, under the number at which it joined

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
        """Where nothing fires."""
        return common(Interval(z - c, z + c) for c, z in self.last.items())

    def receive(self, sender: str, message: Message) -> list[Sent]:
        """Take a message; answer with what to send."""
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
        """Who joins others gets what they have, which is within the threshold; the first one gets the newest value."""
        value = self.last.setdefault(join.threshold, join.value)
        self.delivered.setdefault(join.threshold, []).append((join.number, value))


class Actor(Protocol):
    """Whatever takes messages and answers with messages."""

    def receive(self, sender: str, message: Message) -> list[Sent]: ...


class Network:
    """Actors by name, and the messages between them.

    longest: the longest delay of a message, in steps; each has its own, drawn from the seed

    Attributes: `sent`, how many messages of each kind.
    """

    def __init__(self, seed: int, longest: int = 5) -> None:
        self.longest = longest
        self.actors: dict[str, Actor] = {}
        self.sent: Counter[str] = Counter()
        self._world = Kernel()
        self._rng = np.random.default_rng(seed)
        self._newest: defaultdict[tuple[str, str], float] = defaultdict(float)

    def deliver(self, name: str, message: Message, sender: str = "") -> None:
        """Hand a message to an actor now, and put its answers on their links."""
        for receiver, answer in self.actors[name].receive(sender, message):
            self._send(name, receiver, answer)

    def run(self, steps: int | None = None) -> None:
        """Let so many steps pass; without a number, until nothing is on its way."""
        self._world.run(math.inf if steps is None else self._world.now + steps)

    def _send(self, sender: str, receiver: str, message: Message) -> None:
        """A message overtakes none before it on its link."""
        due = self._world.now + int(self._rng.integers(1, self.longest + 1))
        due = self._newest[sender, receiver] = max(due, self._newest[sender, receiver])
        self.sent[type(message).__name__] += 1
        self._world.at(due, self.deliver, receiver, message, sender)


@dataclass
class Child:
    """What a node knows of a child.

    safe: what the child advertised
    dirty: something was sent to it since, so the advert may not be true any more
    forwarded: the number of the last thing sent to it
    """

    safe: Interval
    dirty: bool = False
    forwarded: int = 0


class Node:
    """Hands events on to the children they concern.

    A child is left out only where its advert reflects everything ever sent to it: then nothing below has changed since,
    and the value lies in the interval of every threshold there. Without the mark a value could slip through between an
    event and the advert that follows from it.

    parent: None at the root, whose adverts nobody reads
    leads: which child a threshold is below of
    """

    def __init__(self, parent: str | None, children: Mapping[str, Interval], leads: Mapping[int, str]) -> None:
        self.parent = parent
        self.children = {name: Child(safe) for name, safe in children.items()}
        self.leads = dict(leads)
        self.seen = 0

    @property
    def safe(self) -> Interval:
        """Where nothing below fires, as far as the adverts tell."""
        return common(child.safe for child in self.children.values())

    def receive(self, sender: str, message: Message) -> list[Sent]:
        """Take a message; answer with what to send."""
        if isinstance(message, Advert):
            return self.advert(self.children[sender], message)
        if isinstance(message, Leave):
            return [(self.leads[message.threshold], message)]
        self.seen = message.number
        if isinstance(message, Join):
            return [self._forward(self.leads[message.threshold], message)]
        concerned = [name for name, child in self.children.items() if self.concerns(child, message.value)]
        return [*(self._forward(name, message) for name in concerned), *self._send_updates()]

    def concerns(self, child: Child, value: int) -> bool:
        """Could the value make something below this child fire?"""
        return child.dirty or not child.safe.holds(value)

    def advert(self, child: Child, advert: Advert) -> list[Sent]:
        """An advert counts where it has seen everything that was sent; others are out of date before they arrive."""
        if not child.dirty or advert.number < child.forwarded:
            return []
        child.safe, child.dirty = advert.safe, False
        return self._send_updates()

    def _forward(self, name: str, message: Event | Join) -> Sent:
        child = self.children[name]
        child.dirty, child.forwarded = True, message.number
        return name, message

    def _send_updates(self) -> list[Sent]:
        if self.parent is None or any(child.dirty for child in self.children.values()):
            return []
        return [(self.parent, Advert(self.seen, self.safe))]


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
        self.network.deliver(ROOT, Event(self.number, value))

    def join(self, threshold: int) -> None:
        """A newcomer with this threshold."""
        self.number += 1
        self._lead(threshold)
        self.network.deliver(ROOT, Join(self.number, self.value, threshold))

    def leave(self, threshold: int) -> None:
        """Nobody wants this threshold any more."""
        self.network.deliver(ROOT, Leave(threshold))

    def wait_until_idle(self) -> None:
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
