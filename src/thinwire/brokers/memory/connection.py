"""The line between a client and the server: up or down, slow or not, and broken now and then.

Reading a log: a place in it, and what has been handed out and not been worked off.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from thinwire.brokers.memory.storage import MessageLog, WakeUp
from thinwire.brokers.protocol import Stored
from thinwire.brokers.subjects import check_pattern, matches
from thinwire.errors import BrokerUnavailable, ConfigError, TransportClosed, UnknownLog

Answer = TypeVar("Answer")


class SimulatedConnection:
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
        self.bells: set[WakeUp] = set()
        self._breaks = 0
        self._changed = WakeUp()

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
            bell.notify()

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
            await self._changed.wait()
            self.check_open()
        return self._breaks

    async def travel(self) -> None:
        """One way. Even without a delay others get their turn, as they would while a socket is waited for."""
        await asyncio.sleep(self.delay)

    async def _travel_back(self) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)


class LocalReader:
    """The messages of a log from an offset on, in order and each once; `dropped` counts those that came again.

    It takes from the log when asked: a reader that is not read costs nothing but its place.
    """

    def __init__(
        self,
        log: MessageLog,
        line: SimulatedConnection,
        first: int,
        subjects: Sequence[str],
        limit: int,
        forget: Callable[[LocalReader], None],
    ) -> None:
        if limit < 1:
            raise ConfigError("must be 1 or more", limit=limit)
        for pattern in subjects:
            check_pattern(pattern)
        self.subjects = tuple(subjects)
        self.limit = limit
        self.dropped = 0
        self._log, self._line, self._forget = log, line, forget
        self._place, self._seen = first, first - 1
        self._unfinished: deque[int] = deque()
        self._wanted: dict[str, bool] = {}
        self._bell = WakeUp()
        self._closed = False
        log.listeners.add(self._bell)
        line.bells.add(self._bell)

    async def next(self, timeout: float | None = None) -> Stored | None:
        """The next message; None when none came within so many seconds."""
        await asyncio.sleep(0)  # others get their turn, however much is waiting here
        message = self._take()
        if message is not None:
            return message
        try:
            async with asyncio.timeout(timeout):
                while (message := self._take()) is None:
                    await self._bell.wait()
                    await self._line.travel()
        except TimeoutError:
            return None
        return message

    def done(self, offset: int) -> None:
        """Messages up to this offset are worked off and make room for others."""
        while self._unfinished and self._unfinished[0] <= offset:
            self._unfinished.popleft()
        self._bell.notify()

    def rewind(self, count: int) -> None:
        """The server delivers the last so many messages of the log again."""
        self._place = max(1, self._place - count)
        self._bell.notify()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._log.listeners.discard(self._bell)
            self._line.bells.discard(self._bell)
            self._forget(self)
            self._bell.notify()

    def _take(self) -> Stored | None:
        self._check_open()
        if not self._line.up or len(self._unfinished) >= self.limit:
            return None
        while (message := self._log.next(self._place, self._wants)) is not None:
            self._place = message.offset + 1
            if message.offset > self._seen:
                self._seen = message.offset
                self._unfinished.append(message.offset)
                return message
            self.dropped += 1
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise TransportClosed("the reader is closed", log=self._log.name)
        if self._log.deleted:
            raise UnknownLog("it was deleted", log=self._log.name)

    def _wants(self, subject: str) -> bool:
        wanted = self._wanted.get(subject)
        if wanted is None:
            wanted = not self.subjects or any(matches(pattern, subject) for pattern in self.subjects)
            self._wanted[subject] = wanted
        return wanted
