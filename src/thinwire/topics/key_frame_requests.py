"""Requests for key frames: to the publishers of a topic, or to the translator of a channel."""

from __future__ import annotations

from contextlib import suppress

from thinwire.brokers.protocol import Broker
from thinwire.errors import BrokerUnavailable
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.names import channel_request_subject, request_all_subject, request_subject
from thinwire.wire import FrameKind, Request


class KeyFrameRequests:
    """Requests of one reader of a topic log, answered by the publishers."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic

    async def request_all(self) -> None:
        """Request key frames of every publisher that is connected."""
        await self._send(request_all_subject(self._topic), bytes((FrameKind.REQUEST, 0, 0)) + Request(0, 0).encode())

    async def request_missing(self, log_decoder: LogDecoder, now: float) -> None:
        """Request key frames for decoders that wait for one, at a limited rate."""
        for publisher, decoder in log_decoder.waiting():
            for frame in decoder.poll(now):
                await self._request(publisher, frame)

    async def _request(self, publisher: str, frame: bytes) -> None:
        await self._send(request_subject(self._topic, publisher), frame)

    async def _send(self, subject: str, payload: bytes) -> None:
        with suppress(BrokerUnavailable):
            await self._broker.send(subject, payload)


class ChannelRequests(KeyFrameRequests):
    """Requests of one reader of a channel, answered by its translator."""

    def __init__(self, broker: Broker, topic: str, class_id: str) -> None:
        super().__init__(broker, topic)
        self._subject = channel_request_subject(topic, class_id)

    async def request_all(self) -> None:
        """Request key frames of every publisher."""
        await self.request("")

    async def request(self, publisher: str) -> None:
        """Request key frames of one publisher; of all for an empty name."""
        await self._send(self._subject, publisher.encode())

    async def _request(self, publisher: str, frame: bytes) -> None:
        await self.request(publisher)
