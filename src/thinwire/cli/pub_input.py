"""Input of `thinwire pub`: events parsed from JSON lines, with counters."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from thinwire.client.publisher import Publisher
from thinwire.errors import EventRejected, PayloadTooLarge

CHUNK = 1 << 16
"""largest number of bytes per read"""
READ_AHEAD = 2
"""largest number of chunks read ahead"""
MAX_LINE = 16 << 20
"""largest line in bytes; a longer one is split, and its pieces are rejected as invalid JSON"""
MAX_REPORTED = 100
"""bad lines that are reported one by one"""


async def read_lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines of an open file, as many at a time as are available.

    A daemon thread reads the descriptor without Python's buffers, so a blocked read does not keep the process alive.
    """
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    capacity = threading.Semaphore(READ_AHEAD)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read_chunks, args=(descriptor, chunks, capacity, loop), daemon=True).start()
    partial = b""
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise chunk
        capacity.release()
        *lines, partial = (partial + chunk).split(b"\n")
        if len(partial) > MAX_LINE:
            lines, partial = [*lines, partial], b""
        if lines:
            yield lines
    if partial:
        yield [partial]


def _read_chunks(
    descriptor: int,
    chunks: asyncio.Queue[bytes | OSError],
    capacity: threading.Semaphore,
    loop: asyncio.AbstractEventLoop,
) -> None:
    chunk: bytes | OSError
    while True:
        capacity.acquire()
        try:
            chunk = os.read(descriptor, CHUNK)
        except OSError as error:
            chunk = error
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        if not chunk or isinstance(chunk, OSError):
            return


class InputEvent(NamedTuple):
    """An event, the number of its line, and its size as compact JSON."""

    number: int
    event: dict[str, Any]
    size: int


class EventInput:
    """Events parsed from JSON lines, with counters.

    accepted: events published; rejected: lines not published; raw_bytes: published events as compact JSON
    """

    def __init__(self, descriptor: int, on_rejected: Callable[[int, str], None]) -> None:
        self.accepted = self.rejected = self.raw_bytes = 0
        self._on_rejected = on_rejected
        self._source = self._read(descriptor)
        self._sampled: list[InputEvent] = []

    async def __aiter__(self) -> AsyncIterator[InputEvent]:
        for item in self._sampled:
            yield item
        self._sampled.clear()
        async for item in self._source:
            yield item

    async def sample(self, count: int) -> list[dict[str, Any]]:
        """Return the first events; iteration yields them again."""
        while len(self._sampled) < count and (item := await anext(self._source, None)) is not None:
            self._sampled.append(item)
        return [item.event for item in self._sampled]

    async def publish(self, out: Publisher, item: InputEvent) -> None:
        """Publish one event. A rejected event is reported; the client stores it as a dead letter."""
        try:
            await out.publish(item.event)
        except (EventRejected, PayloadTooLarge) as error:
            self.reject(item.number, str(error))
        else:
            self.accepted += 1
            self.raw_bytes += item.size

    def reject(self, number: int, reason: str) -> None:
        """Count a bad line and report the reason."""
        self.rejected += 1
        if self.rejected <= MAX_REPORTED:
            self._on_rejected(number, reason)
        if self.rejected == MAX_REPORTED:
            self._on_rejected(number, "further bad lines are counted, not shown")

    async def _read(self, descriptor: int) -> AsyncIterator[InputEvent]:
        number = 0
        async for lines in read_lines(descriptor):
            for line in lines:
                number += 1
                if (item := self._parse(number, line)) is not None:
                    yield item
            await asyncio.sleep(0)  # publishing rarely suspends; without this the outbox would not send meanwhile

    def _parse(self, number: int, line: bytes) -> InputEvent | None:
        if not line.strip():
            return None
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.reject(number, f"not JSON: {error}")
            return None
        if not isinstance(event, dict):
            self.reject(number, f"not an object but {type(event).__name__}: one JSON object a line makes an event")
            return None
        compact = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
        return InputEvent(number, event, len(compact.encode(errors="replace")))
