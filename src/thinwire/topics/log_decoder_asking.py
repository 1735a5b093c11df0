"""Asking publishers for key frames: all of a topic at the start, one whose link is lost later."""

from __future__ import annotations

from contextlib import suppress

from thinwire.brokers.protocol_broker import Broker
from thinwire.errors import BrokerUnavailable
from thinwire.topics.log_decoder_inlet import Inlet
from thinwire.topics.names import ask_subject, call_subject
from thinwire.wire import FrameKind, Request


class Requests:
    """The requests of one reader of a topic's log."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic

    async def call(self) -> None:
        """Ask every publisher that is there to say where it stands."""
        frame = bytes((FrameKind.REQUEST, 0, 0)) + Request(0, 0).encode()
        with suppress(BrokerUnavailable):
            await self._broker.send(call_subject(self._topic), frame)

    async def ask(self, inlet: Inlet, now: float) -> None:
        """Ask the publishers whose links are lost, not too often."""
        for publisher, link in inlet.lost():
            for frame in link.poll(now):
                with suppress(BrokerUnavailable):
                    await self._broker.send(ask_subject(self._topic, publisher), frame)
