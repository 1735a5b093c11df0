"""Lines of a file or of standard input, read beside an event loop that must not wait for them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

CHUNK = 1 << 16
"""bytes read at once, at most"""
MAX_LINE = 16 << 20
"""bytes of one line; what is longer comes in pieces, and no piece of it is JSON"""


async def lines(path: Path | None) -> AsyncIterator[list[bytes]]:
    """The lines of a file, standard input for None, as many at once as are there.

    A thread reads, and never holds a buffer's lock: it may sit in a read for ever and the process still ends.
    """
    descriptor = os.open(path, os.O_RDONLY) if path is not None else sys.stdin.fileno()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(maxsize=2)
    threading.Thread(target=_read, args=(descriptor, chunks, asyncio.get_running_loop()), daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise chunk
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE:
            whole, rest = [*whole, rest], b""
        if whole:
            yield whole
    if rest:
        yield [rest]


def _read(descriptor: int, chunks: asyncio.Queue[bytes | OSError], loop: asyncio.AbstractEventLoop) -> None:
    chunk: bytes | OSError = b"..."
    while chunk and not isinstance(chunk, OSError):
        try:
            chunk = os.read(descriptor, CHUNK)
        except OSError as trouble:
            chunk = trouble
        try:
            asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
        except (RuntimeError, asyncio.CancelledError):
            return  # the loop has ended: nobody wants to know any more
