"""How somebody who waits hears that something has changed."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes whoever waits. What has changed they look up themselves, so a ring too many does no harm.

    >>> bell = Bell()
    >>> async def wait_and_ring():
    ...     asyncio.get_running_loop().call_soon(bell.ring)
    ...     await bell.heard()
    ...     return "awake"
    >>> asyncio.run(wait_and_ring())
    'awake'
    """

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def heard(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)
