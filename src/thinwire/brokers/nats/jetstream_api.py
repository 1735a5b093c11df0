"""Asking JetStream, whoever carries the question: a connection of an event loop, or a socket that blocks."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from thinwire.brokers.nats.jetstream_api_refusals import NO_JETSTREAM, NO_ROOM, Refused, connection_error
from thinwire.errors import BrokerRefused, ThinwireError

ATTEMPT = 5.0
"""seconds until a question that is not answered is asked again"""
PAUSE = 0.05
"""seconds until a server that is not ready yet is asked again"""
NO_RESPONDERS = 503


class Unanswered(Exception):
    """No answer: the connection was cut, or the answer did not come in time. What was asked may have been done."""


class NobodyThere(Exception):
    """Nobody listens under that subject: what was asked has not been done."""


class Answer(NamedTuple):
    payload: bytes
    headers: bytes | None


class Asking(ABC):
    """Somebody who carries questions to a server and brings the answers."""

    url: str

    @abstractmethod
    def deadline(self, timeout: float | None = None) -> float:
        """When a call that begins now gives up, in the time of whoever waits."""

    @abstractmethod
    def attempt(self, deadline: float) -> float:
        """Seconds for one attempt."""

    @abstractmethod
    async def still_time(self, deadline: float, reason: ThinwireError | None = None) -> None:
        """Wait for the connection; past the deadline, say why nothing could be done."""

    @abstractmethod
    async def pause(self) -> None:
        """Give a server that is not ready yet a moment."""

    @abstractmethod
    async def ask(self, subject: str, payload: bytes, *, headers: bytes = b"", patience: float = ATTEMPT) -> Answer:
        """The first answer; `Unanswered` or `NobodyThere` where there is none."""

    @abstractmethod
    async def ask_many(self, subject: str, payload: bytes, *, patience: float = ATTEMPT) -> list[Answer]:
        """All answers up to the one with a status, which is the last of them."""

    async def api(self, verb: str, body: Mapping[str, Any] | None = None, *, deadline: float) -> dict[str, Any]:
        """Ask JetStream until it answers; `Refused` if it says no. Only for what may be asked twice."""
        payload = json.dumps(body, separators=(",", ":")).encode() if body else b""
        reason: ThinwireError | None = None
        while True:
            await self.still_time(deadline, reason)
            try:
                answer = await self.ask(f"$JS.API.{verb}", payload, patience=self.attempt(deadline))
            except Unanswered:
                reason = None
                continue
            except NobodyThere:
                reason = BrokerRefused(f"JetStream does not answer. {NO_JETSTREAM}; or {NO_ROOM}", servers=self.url)
                await self.pause()
                continue
            reply: dict[str, Any] = json.loads(answer.payload)
            if "error" not in reply:
                return reply
            refused = Refused(reply["error"])
            if not refused.passing:
                raise refused
            reason = refused.translated(servers=self.url)
            await self.pause()

    async def check_jetstream(self, patience: float) -> None:
        """Refuse a server that stores nothing."""
        try:
            answer = await self.ask("$JS.API.INFO", b"", patience=patience)
        except NobodyThere:
            raise BrokerRefused(NO_JETSTREAM, servers=self.url) from None
        except Unanswered:
            raise connection_error(TimeoutError(), self.url) from None
        refusal = json.loads(answer.payload).get("error")
        if refusal:
            raise Refused(refusal).translated(servers=self.url)
