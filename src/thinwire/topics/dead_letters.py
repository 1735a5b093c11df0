"""Dead letters: events and messages that could not be processed, with the reason, in one log for all topics."""

from __future__ import annotations

import json
import logging
from typing import Any

from thinwire.brokers.protocol import Broker, Retention
from thinwire.errors import TransportError
from thinwire.topics.names import DEAD_LOG, dead_subject

MAX_LETTERS = 10_000
"""dead letters that retention keeps, of all topics together"""
MAX_EVENT_TEXT = 16_384
"""characters of an event or message in a dead letter"""
APPEND_TIMEOUT = 5.0

_log = logging.getLogger("thinwire.topics")


class DeadLetters:
    """Stores what one publisher or edge host could not process."""

    def __init__(self, broker: Broker, publisher: str) -> None:
        self._broker = broker
        self._publisher = publisher
        self._has_log = False

    async def store(self, topic: str, *, reason: str, error: str, event: str, **facts: Any) -> None:
        """Store the text of an event or message. A failure is logged and not raised.

        error: class or kind of the problem; facts: further fields of the letter
        """
        letter = {"topic": topic, "publisher": self._publisher, "reason": reason, "error": error, **facts}
        letter["event"] = event[:MAX_EVENT_TEXT]
        try:
            if not self._has_log:
                await self._broker.ensure_log(DEAD_LOG, ["tw.dead.>"], Retention(max_messages=MAX_LETTERS))
                self._has_log = True
            subject = dead_subject(topic)
            await self._broker.append(DEAD_LOG, subject, json.dumps(letter).encode(), timeout=APPEND_TIMEOUT)
        except TransportError as problem:
            _log.warning("%s: cannot store a dead letter (%s): %s", topic, reason or error, problem)
