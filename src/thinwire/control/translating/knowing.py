"""What a translator knows: what is asked of every topic, who holds it, and which classes have a channel."""

from __future__ import annotations

import logging
from contextlib import suppress

from thinwire.control.along import Along, Reading, leased
from thinwire.control.leases import Leases
from thinwire.control.names import CHANNELS, LEASES, REGISTRY
from thinwire.control.registry.shelf import Shelf
from thinwire.control.translating.documents import ChannelDocument
from thinwire.control.translating.planning import Judge, Served
from thinwire.errors import RegistryError
from thinwire.transports.broker import Broker, Entry

_log = logging.getLogger("thinwire.translator")


class Knowledge(Along):
    """Read along in three buckets; see `Along`."""

    def __init__(self, broker: Broker, leases: Leases) -> None:
        readings = {REGISTRY: self._asked, LEASES: lambda: leased(leases), CHANNELS: self._served}
        super().__init__(broker, readings, _log, quiet=(LEASES,))
        self.leases = leases
        self._shelf = Shelf()
        self._judges: dict[str, Judge] = {}
        self._judged: dict[str, dict[str, Served]] = {}
        self._channels: dict[str, str] = {}

    def is_registered(self, topic: str) -> bool:
        """Does the registry know the topic?"""
        return topic in self._shelf.topics and self._shelf.topics[topic].document is not None

    def asked(self, name: str) -> dict[str, Served]:
        """The classes that are asked for of a topic, and which of them need a channel."""
        topic = self._shelf.topics.get(name)
        if topic is None:
            self._judges.pop(name, None)
            return {}
        if name not in self._judged:
            self._judged[name] = self._judges.setdefault(name, Judge()).verdicts(topic)
        return self._judged[name]

    def needed(self) -> set[str]:
        """The topics that must be translated: a class needs a channel, or is said to have one."""
        registered = (topic.name for topic in self._shelf if topic.document is not None)
        wanted = {name for name in registered if any(one.state == "open" for one in self.asked(name).values())}
        return wanted | set(self._channels.values())

    def _asked(self) -> Reading:
        shelf = Shelf()

        def take(entry: Entry) -> None:
            topic = shelf.put(entry)
            if topic is not None:
                self._judged.pop(topic, None)

        def complete() -> None:
            self._shelf = shelf
            self._judged.clear()

        return Reading(take, complete)

    def _served(self) -> Reading:
        """A class that is said to have a channel has one, or somebody must take that back."""
        channels: dict[str, str] = {}

        def take(entry: Entry) -> None:
            channels.pop(entry.key, None)
            with suppress(RegistryError):
                document = ChannelDocument.decode(entry.value) if entry.value is not None else None
                if document is not None and document.state == "open":
                    channels[entry.key] = document.topic

        def complete() -> None:
            self._channels = channels

        return Reading(take, complete)
