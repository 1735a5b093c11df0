"""Words that are stored nowhere: who hears them, one after the other, and answers."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import NamedTuple

from thinwire.brokers.memory.connection import Line
from thinwire.brokers.memory.server import LocalServer
from thinwire.brokers.protocol_broker import Handler
from thinwire.brokers.subjects import check_pattern, matches
from thinwire.errors import PayloadTooLarge

MAX_WAITING = 65_536
"""words a listener may lag behind; later ones are lost to it"""

_log = logging.getLogger(__name__)


class Word(NamedTuple):
    subject: str
    payload: bytes
    answer: asyncio.Future[bytes] | None = None


class LocalListener:
    """Hears words that match while its line is up."""

    def __init__(self, pattern: str, handler: Handler, line: Line, server: LocalServer) -> None:
        check_pattern(pattern)
        self.pattern = pattern
        self.handler = handler
        self.closed = False
        self.line = line
        self._server = server
        self._words: asyncio.Queue[Word] = asyncio.Queue(MAX_WAITING)
        self._task = asyncio.create_task(self._work())
        server.listeners.append(self)

    def hears(self, subject: str) -> bool:
        return self.line.up and matches(self.pattern, subject)

    def tell(self, word: Word) -> None:
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

    async def _handle(self, word: Word) -> None:
        answer = await self.handler(word.subject, word.payload)
        if answer is None or word.answer is None:
            return
        if len(answer) > self._server.max_payload:
            raise PayloadTooLarge(subject=word.subject, size=len(answer), limit=self._server.max_payload)
        if self.line.up and not word.answer.done():
            word.answer.set_result(bytes(answer))
