"""Asking the translator of a topic for key frames of a class: of all publishers at the start, of one that is lost."""

from __future__ import annotations

from contextlib import suppress

from thinwire.brokers.protocol_broker import Broker
from thinwire.errors import BrokerUnavailable
from thinwire.topics.log_decoder_inlet import Inlet
from thinwire.topics.names import channel_ask_subject


class ChannelRequests:
    """The requests of one reader of a channel."""

    def __init__(self, broker: Broker, topic: str, class_id: str) -> None:
        self._broker = broker
        self._subject = channel_ask_subject(topic, class_id)

    async def call(self) -> None:
        """Ask for where every publisher stands."""
        await self.ask_for("")

    async def ask(self, inlet: Inlet, now: float) -> None:
        """Ask for the publishers whose links are lost, not too often."""
        for publisher, link in inlet.lost():
            if link.poll(now):
                await self.ask_for(publisher)

    async def ask_for(self, publisher: str) -> None:
        """Ask for where one publisher stands."""
        with suppress(BrokerUnavailable):
            await self._broker.send(self._subject, publisher.encode())
