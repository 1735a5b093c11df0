"""A client that reaches a broker in memory over a limited link, in the time of the broker's clock.

>>> from thinwire.clock import VirtualClock
>>> from thinwire.simulation import read_limits
>>> clock = VirtualClock()
>>> broker = MemoryBroker(clock)
>>> modem = LimitedClient(broker, read_limits("up=8kbit,delay=100ms"))
>>> inbox = broker.subscribe("building.>")
>>> modem.publish("building.rooms", bytes(500))
>>> clock.advance(0.59); len(list(inbox))
0
>>> clock.advance(0.01); len(list(inbox))
1
"""

from __future__ import annotations

from collections.abc import Mapping

from thinwire.simulation import Limits, lanes
from thinwire.transports.base import Capabilities
from thinwire.transports.inbox import MemoryInbox, Policy
from thinwire.transports.memory import MemoryBroker


class LimitedClient:
    """Implements `thinwire.transports.base.Transport`: a publisher and its inboxes at the far end of one line.

    limits: of the line; seed: of its jitter; other clients of the broker have lines of their own, or none
    """

    def __init__(self, broker: MemoryBroker, limits: Limits, seed: int = 0) -> None:
        self.broker = broker
        self.limits = limits
        self.seed = seed
        up, self._down = lanes(limits, seed)
        self._way = broker.entrance(up)
        self._inboxes: list[MemoryInbox] = []

    @property
    def capabilities(self) -> Capabilities:
        return self.broker.capabilities

    def publish(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int | None:
        """Send a message; its sequence where the line lets it through at once, else None."""
        return self.broker.publish(subject, payload, headers, way=self._way)

    def subscribe(self, pattern: str, *, limit: int = 65_536, policy: Policy = "block") -> MemoryInbox:
        """Receive what is published from now on; all inboxes of this client share the line."""
        inbox = self.broker.subscribe(pattern, limit=limit, policy=policy, lane=self._down)
        self._inboxes.append(inbox)
        return inbox

    def close(self) -> None:
        """Close the inboxes of this client; the broker and its other clients stay."""
        for inbox in self._inboxes:
            inbox.close()
        self._inboxes.clear()
