"""Words that are stored nowhere: said to whoever listens now, answered or not."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from thinwire.brokers.nats.client_intake import log
from thinwire.brokers.nats.connection import Connection
from thinwire.brokers.nats.jetstream_api import NobodyThere, Unanswered
from thinwire.brokers.protocol_broker import Handler
from thinwire.brokers.subjects import check_pattern, check_subject
from thinwire.errors import BrokerUnavailable, NobodyAnswers

WAITING = 4096
"""words that may wait for a handler; those beyond are lost, as they are where nobody listens"""


async def send(connection: Connection, subject: str, payload: bytes) -> None:
    """Say something."""
    check_subject(subject)
    await connection.ready(connection.deadline())
    connection.post(subject, payload)
    with suppress(OSError):  # a word may be lost, and is not said again
        await connection.client.room()


async def request(connection: Connection, subject: str, payload: bytes, timeout: float) -> bytes:
    """Ask until there is an answer or the time is over; after a cut it is asked again."""
    check_subject(subject)
    deadline = connection.deadline(timeout)
    loop = asyncio.get_running_loop()
    while True:
        await connection.ready(deadline)
        try:
            answer = await connection.ask(subject, payload, patience=max(0.001, deadline - loop.time()))
            return answer.payload
        except NobodyThere:
            raise NobodyAnswers("nobody listens", subject=subject) from None
        except Unanswered:
            if loop.time() >= deadline - 0.001:
                raise NobodyAnswers("no answer in time", subject=subject, seconds=timeout) from None


class NatsListener:
    """Hears words under a pattern and hands them to a handler, one after the other."""

    def __init__(self, connection: Connection, pattern: str, handler: Handler) -> None:
        check_pattern(pattern)
        self._connection, self._pattern, self._handler = connection, pattern, handler
        self._words: asyncio.Queue[tuple[str, str, bytes]] = asyncio.Queue(WAITING)
        self._sid = 0
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """From here on words are heard."""
        await self._connection.ready(self._connection.deadline())
        self._task = asyncio.create_task(self._work())
        self._connection.open_ends.add(self)
        self._sid = self._connection.attach(self._pattern, self._hear)
        await self._connection.round_trip()

    async def close(self) -> None:
        """Once this returns, whoever asks hears that nobody listens."""
        self._connection.open_ends.discard(self)
        self._connection.detach(self._sid)
        if self._connection.connected and not self._connection.closing:
            with suppress(BrokerUnavailable):
                await self._connection.round_trip()
        self._closed = True
        if self._task is not None and self._task is not asyncio.current_task():  # a handler may end its own listener
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _hear(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        try:
            self._words.put_nowait((subject.decode(), reply.decode(), payload))
        except asyncio.QueueFull:
            log.warning("the listener of %s does not keep up: a word is lost", self._pattern)

    async def _work(self) -> None:
        while not self._closed:
            subject, reply, payload = await self._words.get()
            try:
                answer = await self._handler(subject, payload)
                if answer is not None and reply and self._connection.connected:
                    self._connection.post(reply, answer)
            except Exception:
                log.exception("the handler of %s failed", subject)
