"""Messages that a function could not process: kept with the reason, for people to look at."""

from __future__ import annotations

import json
import logging

from thinwire.brokers.protocol_broker import Broker, Retention
from thinwire.edge.edge_documents import EdgeTopic
from thinwire.edge.topic_worker_workers import Outcome
from thinwire.errors import TransportError
from thinwire.topics.names import DEAD_LOG, dead_subject

MAX_SHOWN = 16_384
"""characters of a message that are kept"""
MAX_KEPT = 10_000
"""letters that are kept, of all topics together"""
PATIENCE = 5.0

_log = logging.getLogger("thinwire.edge")


class EdgeLetters:
    """The dead letters of one host. Of a topic whose messages stay at their host only the reason leaves it."""

    def __init__(self, broker: Broker, host: str) -> None:
        self.host = host
        self._broker = broker

    async def keep(self, topic: EdgeTopic, offset: int, identity: str, body: bytes, outcome: Outcome) -> None:
        """Store a message with the reason; where even that fails, say so in the log and go on."""
        letter = {
            "topic": topic.topic,
            "publisher": self.host,
            "error": outcome.kind,
            "reason": "" if topic.near else outcome.body.decode("utf-8", "replace"),
            "offset": offset,
            "id": identity,
            "event": "stays at its host" if topic.near else body.decode("utf-8", "replace")[:MAX_SHOWN],
        }
        try:
            await self._broker.open_log(DEAD_LOG, ["tw.dead.>"], Retention(messages=MAX_KEPT))
            subject = dead_subject(topic.topic)
            await self._broker.append(DEAD_LOG, subject, json.dumps(letter).encode(), timeout=PATIENCE)
        except TransportError as trouble:
            _log.warning("%s: a message that could not be processed was not kept: %s", topic.topic, trouble)
