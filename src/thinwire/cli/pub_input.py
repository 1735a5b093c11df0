"""Lines of a file or of standard input, read beside an event loop that must not wait for them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator

CHUNK = 1 << 16
"""bytes read at once, at most"""
AHEAD = 2
"""chunks read ahead, at most"""
MAX_LINE = 16 << 20
"""bytes of one line; what is longer comes in pieces, and no piece of it is JSON"""


async def lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """The lines of an open file, as many at once as are there.

    A thread reads, past Python's buffers and their locks: it may sit in a read for ever and the process still ends.
    """
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(AHEAD)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(descriptor, chunks, room, loop), daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise chunk
        room.release()
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE:
            whole, rest = [*whole, rest], b""
        if whole:
            yield whole
    if rest:
        yield [rest]


def _read(
    descriptor: int,
    chunks: asyncio.Queue[bytes | OSError],
    room: threading.Semaphore,
    loop: asyncio.AbstractEventLoop,
) -> None:
    chunk: bytes | OSError = b"..."
    while chunk and not isinstance(chunk, OSError):
        room.acquire()
        try:
            chunk = os.read(descriptor, CHUNK)
        except OSError as trouble:
            chunk = trouble
        try:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        except RuntimeError:
            return  # the loop has ended: nobody wants to know any more
