"""One broker in memory: what it keeps, who is connected, and how it misbehaves when told to.

Words that are stored nowhere: who hears them, one after the other, and answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from thinwire.brokers.memory.connection import SimulatedConnection
from thinwire.brokers.memory.storage import Documents, MessageLog
from thinwire.brokers.protocol import Capabilities, Handler, Retention
from thinwire.brokers.subjects import check_pattern, matches
from thinwire.clock import Clock, WallClock
from thinwire.errors import ConfigError, PayloadTooLarge, TransportError, UnknownLog

if TYPE_CHECKING:
    from thinwire.brokers.memory.broker import LocalBroker
    from thinwire.brokers.memory.connection import LocalReader


_named: dict[tuple[asyncio.AbstractEventLoop, str], LocalServer] = {}


class LocalServer:
    """Logs, buckets and listeners, shared by the clients of one event loop.

    name: as in memory://name; clock: what messages are dated with and grow old by; max_payload: bytes in a message;
    delay: seconds a message or an answer is on its way; log_size: bytes kept by a log that was given no size of its
    own, since memory is not a disk

    What it keeps outlives `stop` and `start`, as a disk would. In between, and while a client is cut off, calls wait.

    >>> from thinwire.brokers.memory import LocalBroker
    >>> async def story():
    ...     server = LocalServer()
    ...     async with LocalBroker(server) as broker:
    ...         await broker.open_log("rooms", ["rooms.>"])
    ...         server.lose_acknowledgements(1)
    ...         offset = await broker.append("rooms", "rooms.a", b"21.5")
    ...         return offset, (await broker.span("rooms")).messages
    >>> asyncio.run(story())
    (1, 1)
    """

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock | None = None,
        max_payload: int = 1 << 20,
        delay: float = 0.0,
        log_size: int = 1 << 28,
    ) -> None:
        for setting, value in {"max_payload": max_payload, "log_size": log_size}.items():
            if value < 1:
                raise ConfigError("must be 1 or more", **{setting: value})
        self.name = name
        self.clock = clock or WallClock()
        self.max_payload = max_payload
        self.delay = delay
        self.log_size = log_size
        self.logs: dict[str, MessageLog] = {}
        self.buckets: dict[str, Documents] = {}
        self.listeners: list[LocalListener] = []
        self.clients: list[LocalBroker] = []
        self.running = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._acknowledgements_to_lose = 0

    @staticmethod
    def named(name: str) -> LocalServer:
        """The server of this name in the running event loop, made where there is none.

        The last client to close takes it along.
        """
        loop = asyncio.get_running_loop()
        for key in [key for key in _named if key[0].is_closed()]:
            del _named[key]  # its clients never closed
        return _named.setdefault((loop, name), LocalServer(name))

    @property
    def url(self) -> str:
        return f"memory://{self.name}"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(gapless=True, headers=False, max_payload=self.max_payload)

    def stop(self) -> None:
        """Everybody is disconnected; what is kept stays."""
        self._switch(running=False)

    def start(self) -> None:
        """Everybody comes back by themselves."""
        self._switch(running=True)

    def cut(self, client: LocalBroker | None = None) -> None:
        """Cut off one client, or all of those there are now, until `restore`."""
        for line in self._lines(client):
            line.change(cut=True)

    def restore(self, client: LocalBroker | None = None) -> None:
        """Let one client, or all, come back."""
        for line in self._lines(client):
            line.change(cut=False)

    def lose_acknowledgements(self, count: int) -> None:
        """The next so many appends are stored and their connection breaks before they hear of it."""
        self._acknowledgements_to_lose += count

    def redeliver(self, count: int = 1, client: LocalBroker | None = None) -> None:
        """Give readers their last so many messages of the log again, as brokers do when they are not sure."""
        for reader in self._readers(client):
            reader.rewind(count)

    def open_log(self, name: str, patterns: Sequence[str], retention: Retention | None) -> None:
        if name not in self.logs:
            kept = retention or Retention()
            size = self.log_size if kept.size is None else kept.size
            self.logs[name] = MessageLog(name, patterns, replace(kept, size=size), self.clock)

    def delete_log(self, name: str) -> None:
        log = self.logs.pop(name, None)
        if log is not None:
            log.deleted = True
            log.ring()

    def log(self, name: str) -> MessageLog:
        if name not in self.logs:
            raise UnknownLog(log=name)
        return self.logs[name]

    def bucket(self, name: str) -> Documents:
        return self.buckets.setdefault(name, Documents(name))

    def acknowledge(self, line: SimulatedConnection) -> None:
        """Break the line that an acknowledgement travels on, if it is one of those to lose."""
        if self._acknowledgements_to_lose:
            self._acknowledgements_to_lose -= 1
            line.change()

    def enter(self, client: LocalBroker) -> SimulatedConnection:
        """A line for a client."""
        loop = asyncio.get_running_loop()
        if self.clients and loop is not self._loop:
            raise TransportError("a broker in memory serves one event loop at a time", url=self.url)
        self._loop = loop
        self.clients.append(client)
        line = SimulatedConnection(self.url, self.delay, client.timeout)
        line.stopped = not self.running
        return line

    def leave(self, client: LocalBroker) -> None:
        self.clients.remove(client)
        if not self.clients and self._loop is not None and _named.get((self._loop, self.name)) is self:
            del _named[self._loop, self.name]

    def _switch(self, *, running: bool) -> None:
        self.running = running
        for line in self._lines():
            line.change(stopped=not running)

    def _lines(self, client: LocalBroker | None = None) -> list[SimulatedConnection]:
        return [one.line for one in self.clients if client in (None, one)]

    def _readers(self, client: LocalBroker | None) -> Iterator[LocalReader]:
        return (reader for one in self.clients if client in (None, one) for reader in one.readers)


MAX_WAITING = 65_536
"""words a listener may lag behind; later ones are lost to it"""

_log = logging.getLogger(__name__)


class UnstoredMessage(NamedTuple):
    subject: str
    payload: bytes
    answer: asyncio.Future[bytes] | None = None


class LocalListener:
    """Hears words that match while its line is up."""

    def __init__(self, pattern: str, handler: Handler, line: SimulatedConnection, server: LocalServer) -> None:
        check_pattern(pattern)
        self.pattern = pattern
        self.handler = handler
        self.closed = False
        self.line = line
        self._server = server
        self._words: asyncio.Queue[UnstoredMessage] = asyncio.Queue(MAX_WAITING)
        self._task = asyncio.create_task(self._work())
        server.listeners.append(self)

    def hears(self, subject: str) -> bool:
        return self.line.up and matches(self.pattern, subject)

    def deliver(self, word: UnstoredMessage) -> None:
        with suppress(asyncio.QueueFull):
            self._words.put_nowait(word)

    async def close(self) -> None:
        if not self.closed:
            self._server.listeners.remove(self)
            self.closed = True
            if self._task is not asyncio.current_task():  # a handler may close its own listener, and finish
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while not self.closed:
            word = await self._words.get()
            try:
                await self._handle(word)
            except Exception:  # the next word must be heard, whatever the handler made of this one
                _log.exception("listener on %s failed at a word on %s", self.pattern, word.subject)

    async def _handle(self, word: UnstoredMessage) -> None:
        answer = await self.handler(word.subject, word.payload)
        if answer is None or word.answer is None:
            return
        if len(answer) > self._server.max_payload:
            raise PayloadTooLarge(subject=word.subject, size=len(answer), limit=self._server.max_payload)
        if self.line.up and not word.answer.done():
            word.answer.set_result(bytes(answer))
