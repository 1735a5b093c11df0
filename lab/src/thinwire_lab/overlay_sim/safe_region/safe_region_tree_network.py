"""Links with delays: what is sent on a link arrives in order, what is sent on two links in any order."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Protocol

import numpy as np

from thinwire_lab.overlay_sim.discrete_events import Kernel
from thinwire_lab.overlay_sim.safe_region.safe_region_tree_messages import Message, Sent


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

    def tell(self, name: str, message: Message, sender: str = "") -> None:
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
        self._world.at(due, self.tell, receiver, message, sender)
