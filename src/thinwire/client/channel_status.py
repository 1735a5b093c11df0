"""How the class of a subscription is served: what its translator says, and whether there is one.

    what is said of the class      what is read
    open                           the channel, while its translator is there
    log                            the log: it is what was asked
    refused                        the log; a notice says why
    nothing                        the log; at the start, where a channel is needed and a translator is there, it is
                                   given a moment to say something

What is said is read as it changes. Whether somebody is there is only asked when a channel has been silent for a while.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress

from thinwire.brokers.protocol import Broker
from thinwire.client.notices import Notice, NoTranslator
from thinwire.errors import BrokerUnavailable, NobodyAnswers, RegistryError, TransportError
from thinwire.topics.channel_documents import ChannelDocument, channel_key
from thinwire.topics.leases import translator_key
from thinwire.topics.names import CHANNELS, LEASES, translator_subject

PATIENCE = 3.0
"""seconds that a translator has to say how a new class is served"""
SIGN_OF_LIFE = 1.2
"""seconds in which a translator that is there says so"""
ANSWER = 1.0
"""seconds that a translator has to answer"""
FIRST, OFTEN = 0.5, 5.0
"""seconds without a message after which the translator is asked whether it is there, first and then"""
GIVE_UP = 10.0
"""seconds without an answer after which the log is read instead"""

_log = logging.getLogger("thinwire.client")


class ChannelStatus:
    """What is known of how one class of a topic is served."""

    def __init__(self, broker: Broker, topic: str, class_id: str, tell: Callable[[Notice], None]) -> None:
        self.document: ChannelDocument | None = None
        self._broker = broker
        self._topic = topic
        self._class_id = class_id
        self._tell = tell
        self._changed = asyncio.Event()
        self._known = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._given_up = 0
        self._refused = ""
        self._ask_at: float | None = None
        self._unanswered: float | None = None
        self._pause, self._again_at = FIRST, 0.0

    @property
    def has_channel(self) -> bool:
        """Is there a channel to read?"""
        return self.document is not None and self.document.state == "open" and self.document.epoch > self._given_up

    @property
    def since(self) -> int:
        """The input offset after which the channel tells everything."""
        return self.document.since if self.document is not None else 0

    async def open(self) -> None:
        """Begin to read what is said of the class; returns when it is known what is said now."""
        self._watching = asyncio.create_task(self._watch(), name=f"channel {self._topic}")
        await self._known.wait()

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def wait_until_known(self, *, needed: bool) -> None:
        """Wait until it is said how the class is served, if it needs a channel and somebody is there to say it."""
        if self.document is None and needed and await self._entries():
            await self._wait_for_document()
        if self.has_channel and await self.ask() is None:
            self._given_up = self.document.epoch if self.document is not None else 0

    async def ask(self) -> int | None:
        """Up to where in the log everything told to the class is stored, as its translator says; None: no answer."""
        try:
            answer = await self._broker.request(translator_subject(self._topic), b"", timeout=ANSWER)
            stored = json.loads(answer).get("stored", 0)
        except (NobodyAnswers, BrokerUnavailable, ValueError, AttributeError):
            return None
        return stored if isinstance(stored, int) else 0

    def on_channel_message(self) -> None:
        """The channel has said something."""
        self._ask_at, self._pause, self._unanswered = None, FIRST, None

    async def look(self, now: float) -> int | None:
        """Where the channel has been silent: is its translator there? Asked now and then; up to where everything is
        stored, if it says so. One that does not answer for long is given up: there is no channel until another epoch.
        """
        if self._ask_at is None:
            self._ask_at = now + FIRST
        if now < self._ask_at or not self._broker.connected:
            return None
        if self._unanswered is not None and now - self._unanswered >= GIVE_UP:
            self._give_up()
            return None
        # noted before it is asked: whoever waits for the answer may lose patience
        self._unanswered = now if self._unanswered is None else self._unanswered
        self._ask_at = now + FIRST
        stored = await self.ask()
        if stored is not None:
            self._ask_at, self._pause, self._unanswered = now + self._pause, min(2 * self._pause, OFTEN), None
        return stored

    async def refresh(self, now: float) -> None:
        """Is a translator that was given up there after all?"""
        given_up = self.document is not None and self.document.state == "open" and not self.has_channel
        if given_up and now >= self._again_at and self._broker.connected:
            self._again_at = now + GIVE_UP
            if await self.ask() is not None:
                self._given_up = 0

    def complain(self) -> None:
        """Say once where a class is refused."""
        document = self.document
        refused = document.reason if document is not None and document.state == "refused" else ""
        if refused and refused != self._refused:
            _log.warning("%s: %s", self._topic, refused)
            self._tell(NoTranslator(refused))
        self._refused = refused

    def _give_up(self) -> None:
        assert self.document is not None
        self._given_up, self._ask_at, self._unanswered = self.document.epoch, None, None
        reason = "no translator answers: the log is read, nothing is lost, and no bandwidth is saved until one is back"
        _log.warning("%s: %s", self._topic, reason)
        self._tell(NoTranslator(reason))

    async def _watch(self) -> None:
        try:
            bucket = await self._broker.bucket(CHANNELS)
            async with aclosing(bucket.watch(channel_key(self._topic, self._class_id))) as changes:
                async for entry in changes:
                    if entry is None:
                        self._known.set()
                    else:
                        self.document = _read(entry.value)
                        self._changed.set()
        except TransportError as problem:
            _log.warning("%s: how this class is served can no longer be followed: %s", self._topic, problem)
        finally:
            self._known.set()

    async def _wait_for_document(self) -> None:
        """Wait for word of the class, as long as a translator shows signs of life."""
        before = await self._entries()
        with suppress(TimeoutError):
            async with asyncio.timeout(SIGN_OF_LIFE):
                await self._changed.wait()
                return
        if await self._entries() == before:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE - SIGN_OF_LIFE):
                await self._changed.wait()

    async def _entries(self) -> dict[str, int]:
        """The translators that have said they are there, and their last signs of life."""
        bucket = await self._broker.bucket(LEASES)
        return {entry.key: entry.revision for entry in await bucket.entries(translator_key("*"))}


def _read(value: bytes | None) -> ChannelDocument | None:
    try:
        return ChannelDocument.decode(value) if value is not None else None
    except RegistryError:
        return None
