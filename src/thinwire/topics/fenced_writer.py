"""Ordered, exactly-once append to the part of a log that has one writer at a time.

Each writer owns the subjects under one pattern. A fenced append states the expected last offset under that pattern, so
the broker refuses it after another writer has appended. The first append of a writer is fenced, and every append that
starts `FENCE_INTERVAL` seconds or more after the last confirmed one. Appends in between carry no condition, which saves
bytes on the wire. If such an append takes longer than the interval, for example because the process was paused, the
writer reads the preceding message and stops if it is from another writer: at most one message of a former writer gets
into the log, and readers drop it by its epoch.

An append whose acknowledgement was lost is recognised by subject and payload and is not stored twice. A broker that is
unavailable or refuses is retried until the caller is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from thinwire.brokers.protocol import ANY, Broker
from thinwire.errors import BrokerRefused, BrokerUnavailable, Conflict, ThinwireError, TransportError

FENCE_INTERVAL = 1.0
"""seconds after a confirmed append from which the next append is fenced"""
ATTEMPT_TIMEOUT = 2.0
"""seconds for one attempt to store a message"""
RETRY_DELAY = 1.0
"""seconds between two attempts"""
WARNING_INTERVAL = 30.0
"""seconds between two warnings about an unavailable broker"""


class RetryWarnings:
    """Logs a warning for a retried append, at most one per `WARNING_INTERVAL`.

    describe: returns the beginning of the log line
    """

    def __init__(self, log: logging.Logger, describe: Callable[[], str]) -> None:
        self._log = log
        self._describe = describe
        self._last = -WARNING_INTERVAL

    def __call__(self, error: TransportError) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last >= WARNING_INTERVAL:
            self._last = now
            self._log.warning("%s; retrying: %s", self._describe(), error)


@dataclass(eq=False, slots=True)
class FencedWriter:
    """The only writer of the messages under one subject pattern of a log.

    pattern: the subjects that this writer owns
    last: offset of the last message under the pattern; 0 if there is none
    superseded_error: called with the pattern; returns the error to raise when another writer has appended
    on_retry: called with the error before an append is retried
    always_fenced: fence every append, and stop if retention has removed all messages under the pattern
    error: why the current append is being retried; None while appends succeed
    """

    broker: Broker
    log: str
    pattern: str
    _: KW_ONLY
    superseded_error: Callable[[str], ThinwireError]
    on_retry: Callable[[TransportError], None]
    last: int = 0
    always_fenced: bool = False
    error: TransportError | None = field(default=None, init=False)
    _confirmed_at: float = field(default=-math.inf, init=False)

    async def append(self, subject: str, payload: bytes) -> int:
        """Store a message after all earlier ones and return its offset."""
        loop = asyncio.get_running_loop()
        fenced, offset = self.always_fenced, None
        while True:
            try:
                if offset is None:
                    # The broker appends after this time, so an acknowledgement proves ownership until then.
                    started = loop.time()
                    fenced = fenced or self.error is not None or started - self._confirmed_at >= FENCE_INTERVAL
                    offset = await self._store(subject, payload, fenced=fenced)
                if not fenced and loop.time() - self._confirmed_at >= FENCE_INTERVAL:
                    await self._check_predecessor(offset)
                break
            except (BrokerUnavailable, BrokerRefused) as error:
                self.error = error
                self.on_retry(error)
                await asyncio.sleep(RETRY_DELAY)
        self.error, self.last, self._confirmed_at = None, offset, started
        return offset

    async def _store(self, subject: str, payload: bytes, *, fenced: bool) -> int:
        last, pattern = (self.last, self.pattern) if fenced else (ANY, "")
        try:
            return await self.broker.append(
                self.log, subject, payload, expected_last=last, last_pattern=pattern, timeout=ATTEMPT_TIMEOUT
            )
        except Conflict:
            return await self._resolve_conflict(subject, payload)

    async def _resolve_conflict(self, subject: str, payload: bytes) -> int:
        """Return the offset if the newest message is this one, stored by an attempt without acknowledgement."""
        newest = await self.broker.last(self.log, self.pattern)
        if newest is None and not self.always_fenced:  # retention has removed all messages under the pattern
            return await self.broker.append(self.log, subject, payload, timeout=ATTEMPT_TIMEOUT)
        if newest is None or newest.offset <= self.last or (newest.subject, newest.payload) != (subject, payload):
            raise self.superseded_error(self.pattern) from None
        await self._check_predecessor(newest.offset)
        return newest.offset

    async def _check_predecessor(self, offset: int) -> None:
        """Raise if another writer has appended between the last message of this writer and `offset`."""
        before = await self.broker.last(self.log, self.pattern, up_to=offset - 1)
        if before is not None and before.offset > self.last:
            raise self.superseded_error(self.pattern)
