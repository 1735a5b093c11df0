"""State of the channel of a subscription's demand class.

    state in the channel document   feed to read
    open                            the channel, while its translator answers
    log                             the log: it already has the requested precision
    refused                         the log; a notice gives the reason
    no document                     the log. A new subscription that needs a channel waits for a document first, if a
                                    translator is running

The document is followed in its bucket. The translator is polled only while the channel is silent.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress

from thinwire.brokers.protocol import Broker
from thinwire.client.notices import Notice, NoTranslator
from thinwire.errors import BrokerUnavailable, ServiceUnavailable, TransportError
from thinwire.topics.channel_documents import ChannelDocument, channel_key, read_channel_document
from thinwire.topics.leases import heartbeat_key
from thinwire.topics.names import CHANNELS, LEASES, translator_subject

DOCUMENT_TIMEOUT = 3.0
"""seconds that a running translator has to publish the document of a new class"""
LEASE_INTERVAL = 1.2
"""seconds in which a running translator renews a lease"""
ANSWER_TIMEOUT = 1.0
MIN_POLL, MAX_POLL = 0.5, 5.0
"""seconds without a message after which the translator is polled: at first, and at most"""
GIVE_UP_AFTER = 10.0
"""seconds without an answer after which the log is read"""
NO_ANSWER = "no translator answers; the subscription reads the log: no event is lost, and no bandwidth is saved"

_log = logging.getLogger("thinwire.client")


class ChannelStatus:
    """Follows the channel document of one demand class.

    document: the current one; None if there is none
    channel_start: log offset from which the channel contains everything; None if there is no channel to read
    """

    def __init__(self, broker: Broker, topic: str, class_id: str, on_notice: Callable[[Notice], None]) -> None:
        self.document: ChannelDocument | None = None
        self.channel_start: int | None = None
        self._broker = broker
        self._topic = topic
        self._class_id = class_id
        self._on_notice = on_notice
        self._document_changed = asyncio.Event()
        self._is_loaded = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._failed_epoch = 0
        self._reported_refusal = ""
        self._silent_since = 0.0
        self._poll_at = 0.0
        self._poll_interval = MIN_POLL
        self._unanswered_since: float | None = None
        self._retry_at = 0.0

    async def open(self) -> None:
        """Start to follow the document; returns when its current state is known."""
        self._follower = asyncio.create_task(self._follow(), name=f"channel {self._topic}")
        await self._is_loaded.wait()

    async def close(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)

    async def wait_for_channel_document(self, *, needed: bool) -> None:
        """Wait for the document if a channel is needed and a translator runs, and check that the translator answers."""
        if self.document is None and needed and await self._lease_revisions():
            await self._wait_while_leased()
        if self.channel_start is not None and await self.request_covered_offset() is None:
            self._mark_failed()

    async def request_covered_offset(self) -> int | None:
        """Request from the translator the log offset up to which the channel covers the log.

        None without a reply; 0 if the translator has closed the channel, also if its document is not updated yet.
        """
        request = json.dumps({"class": self._class_id, "since": self.channel_start}).encode()
        try:
            answer = await self._broker.request(translator_subject(self._topic), request, timeout=ANSWER_TIMEOUT)
            covered = json.loads(answer).get("stored", 0)
        except (ServiceUnavailable, BrokerUnavailable, ValueError, AttributeError):
            return None
        return covered if isinstance(covered, int) else 0

    async def poll(self, now: float, silent_since: float) -> int | None:
        """Request the covered offset from the translator if the channel was silent for a while.

        silent_since: the time of the last message

        A translator that does not answer for `GIVE_UP_AFTER` seconds has failed: there is no channel until it
        answers again or its document has another epoch.
        """
        if silent_since != self._silent_since:
            self._silent_since = silent_since
            self._poll_at, self._poll_interval, self._unanswered_since = silent_since + MIN_POLL, MIN_POLL, None
        if now < self._poll_at or not self._broker.connected:
            return None
        if self._unanswered_since is not None and now - self._unanswered_since >= GIVE_UP_AFTER:
            self._mark_failed()
            self._poll_at, self._unanswered_since = now + MIN_POLL, None
            _log.warning("%s: %s", self._topic, NO_ANSWER)
            self._on_notice(NoTranslator(NO_ANSWER))
            return None
        # Set before the request: the caller may be cancelled while it waits for the answer.
        self._unanswered_since = now if self._unanswered_since is None else self._unanswered_since
        self._poll_at = now + MIN_POLL
        covered = await self.request_covered_offset()
        if covered is not None:
            self._poll_at, self._unanswered_since = now + self._poll_interval, None
            self._poll_interval = min(2 * self._poll_interval, MAX_POLL)
        return covered

    async def check(self, now: float) -> None:
        """Report a refusal once, and use the channel again if its failed translator answers."""
        document = self.document
        refusal = document.reason if document is not None and document.state == "refused" else ""
        if refusal != self._reported_refusal:
            self._reported_refusal = refusal
            if refusal:
                _log.warning("%s: %s", self._topic, refusal)
                self._on_notice(NoTranslator(refusal))
        has_failed = document is not None and document.state == "open" and self.channel_start is None
        if has_failed and now >= self._retry_at and self._broker.connected:
            self._retry_at = now + GIVE_UP_AFTER
            if await self.request_covered_offset() is not None:
                self._failed_epoch = 0
                self._update()

    def _mark_failed(self) -> None:
        self._failed_epoch = self.document.epoch if self.document is not None else 0
        self._update()

    def _update(self) -> None:
        document = self.document
        is_open = document is not None and document.state == "open" and document.epoch > self._failed_epoch
        self.channel_start = document.since if document is not None and is_open else None

    async def _follow(self) -> None:
        try:
            bucket = await self._broker.bucket(CHANNELS)
            async with aclosing(bucket.watch(channel_key(self._topic, self._class_id))) as changes:
                async for entry in changes:
                    if entry is None:
                        self._is_loaded.set()
                    else:
                        self.document = read_channel_document(entry.value)
                        self._update()
                        self._document_changed.set()
        except TransportError as problem:
            _log.warning("%s: stopped following the channel document: %s", self._topic, problem)
        finally:
            self._is_loaded.set()

    async def _wait_while_leased(self) -> None:
        """Wait for a document while a translator renews its lease."""
        before = await self._lease_revisions()
        for timeout in (LEASE_INTERVAL, DOCUMENT_TIMEOUT - LEASE_INTERVAL):
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._document_changed.wait()
                    return
            if await self._lease_revisions() == before:
                return

    async def _lease_revisions(self) -> dict[str, int]:
        bucket = await self._broker.bucket(LEASES)
        return {entry.key: entry.revision for entry in await bucket.entries(heartbeat_key("translator", "*"))}
