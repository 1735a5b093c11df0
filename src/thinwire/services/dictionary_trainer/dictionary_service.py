"""What a dictionary service knows: which topics shall have dictionaries, how many share each, and who holds it."""

from __future__ import annotations

import logging

from thinwire.brokers.protocol_broker import Broker, Entry
from thinwire.dictionaries.byte_account import Topology
from thinwire.services.registry.document_cache import Shelf
from thinwire.topics.bucket_follower import Along, Reading, leased
from thinwire.topics.leases import Leases
from thinwire.topics.names import REGISTRY, SAMPLERS

_log = logging.getLogger("thinwire.dictionaries")


class Knowledge(Along):
    """Read along in two buckets; see `Along`."""

    def __init__(self, broker: Broker, leases: Leases) -> None:
        readings = {REGISTRY: self._registered, SAMPLERS: lambda: leased(leases)}
        super().__init__(broker, readings, _log, quiet=(SAMPLERS,))
        self._shelf = Shelf()
        self._needed: set[str] = set()

    def needed(self) -> set[str]:
        """The topics whose owners want dictionaries."""
        return set(self._needed)

    def needs(self, topic: str) -> bool:
        """Is this one of them?"""
        return topic in self._needed

    def topology(self, topic: str) -> Topology:
        """How many publishers and subscribers a topic has."""
        known = self._shelf.topics.get(topic)
        return Topology(max(1, len(known.publishers)), len(known.subscriptions)) if known is not None else Topology()

    def _registered(self) -> Reading:
        shelf = Shelf()
        needed: set[str] = set()

        def take(entry: Entry) -> None:
            name = shelf.put(entry)
            if name is not None:
                (needed.add if _wants(shelf, name) else needed.discard)(name)

        def complete() -> None:
            self._shelf, self._needed = shelf, needed

        return Reading(take, complete)


def _wants(shelf: Shelf, topic: str) -> bool:
    known = shelf.topics.get(topic)
    return known is not None and known.document is not None and known.document.settings.dictionaries
