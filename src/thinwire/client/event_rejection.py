"""Where refused events go: a log of their own, with the reason, for people to look at."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from thinwire.brokers.protocol_broker import Broker, Retention
from thinwire.errors import ThinwireError, TransportError
from thinwire.schema import Schema
from thinwire.topics.names import DEAD_LOG, dead_subject

MAX_SHOWN = 16_384
"""characters of a refused event that are kept"""
MAX_KEPT = 10_000
"""letters that are kept, of all topics together"""
PATIENCE = 5.0

_log = logging.getLogger("thinwire.client")


class DeadLetters:
    """The refused events of one publisher. What is confidential stays out of them."""

    def __init__(self, broker: Broker, schema: Schema, publisher: str) -> None:
        self.kept = 0
        self._broker = broker
        self._topic = schema.name
        self._secret = frozenset(p.name for p in schema if p.confidential)
        self._publisher = publisher

    async def keep(self, event: Mapping[str, Any], problem: ThinwireError) -> None:
        """Store an event with the reason; where even that fails, say so in the log and go on."""
        try:
            if not self.kept:
                await self._broker.open_log(DEAD_LOG, ["tw.dead.>"], Retention(messages=MAX_KEPT))
            letter = self._letter(event, problem)
            await self._broker.append(DEAD_LOG, dead_subject(self._topic), letter, timeout=PATIENCE)
            self.kept += 1
        except TransportError as trouble:
            _log.warning("%s: a refused event could not be kept (%s): %s", self._topic, problem, trouble)

    def _letter(self, event: Mapping[str, Any], problem: ThinwireError) -> bytes:
        open_to_all = {str(name): value for name, value in event.items() if name not in self._secret}
        shown = json.dumps(open_to_all, default=repr)
        letter = {
            "topic": self._topic,
            "publisher": self._publisher,
            "reason": str(problem),
            "error": type(problem).__name__,
            "event": shown[:MAX_SHOWN],
        }
        return json.dumps(letter).encode()
