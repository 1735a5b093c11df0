"""The line between a client and the server: up or down, slow or not, and broken now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from thinwire.brokers.memory.storage import Bell
from thinwire.errors import BrokerUnavailable, ConfigError, TransportClosed

Answer = TypeVar("Answer")


class Line:
    """What a client's calls travel on.

    url: where it leads, for errors; delay: seconds one way; timeout: how long a call waits unless it says otherwise
    """

    def __init__(self, url: str, delay: float, timeout: float) -> None:
        if delay < 0 or timeout <= 0:
            raise ConfigError("delay is 0 or more, timeout more than 0", delay=delay, timeout=timeout)
        self.url = url
        self.delay = delay
        self.timeout = timeout
        self.cut = False
        self.stopped = False
        self.closed = False
        self.bells: set[Bell] = set()
        self._breaks = 0
        self._changed = Bell()

    @property
    def up(self) -> bool:
        return not (self.cut or self.stopped or self.closed)

    def change(self, *, cut: bool | None = None, stopped: bool | None = None, closed: bool | None = None) -> None:
        """Set what is given. Every change is a break: what was on its way is lost, and whoever waits looks again."""
        self.cut = self.cut if cut is None else cut
        self.stopped = self.stopped if stopped is None else stopped
        self.closed = self.closed if closed is None else closed
        self._breaks += 1
        for bell in (self._changed, *self.bells):
            bell.ring()

    def check_open(self) -> None:
        if self.closed:
            raise TransportClosed(url=self.url)

    async def call(self, work: Callable[[], Answer], timeout: float | None = None) -> Answer:
        """Have work done at the server, once, and bring back the answer.

        When the line breaks it is asked again, and the server, which knows the request, repeats what it answered.
        """
        seconds = self.timeout if timeout is None else timeout
        answers: list[Answer] = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    breaks = await self._ready()
                    await self.travel()
                    if self._breaks == breaks and not answers:
                        answers.append(work())
                        await self._travel_back()
                    if self._breaks == breaks:
                        return answers[0]
        except TimeoutError:
            raise BrokerUnavailable(url=self.url, timeout=seconds) from None

    async def _ready(self) -> int:
        """Wait until the line is up, and say how often it has been broken."""
        self.check_open()
        while not self.up:
            await self._changed.heard()
            self.check_open()
        return self._breaks

    async def travel(self) -> None:
        """One way. Even without a delay others get their turn, as they would while a socket is waited for."""
        await asyncio.sleep(self.delay)

    async def _travel_back(self) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
