"""Tasks that run in the background of a measurement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

PROGRESS_INTERVAL = 0.25


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended. Their errors are ignored."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


async def wait_unless_failed(work: Awaitable[T], tasks: Collection[asyncio.Task[None]]) -> T:
    """Return the result of `work`. If one of the tasks ends meanwhile, raise its error."""
    waiting = asyncio.ensure_future(work)
    try:
        await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        return await waiting
    finally:
        waiting.cancel()


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run `work` within the block and cancel it at the end."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        await cancel_tasks([task])


async def report_progress(progress: Callable[[float], None], seconds: float, lead: float = 0.0) -> None:
    """Report the elapsed share of a period that begins in `lead` seconds, until cancelled."""
    start = monotonic() + lead
    while True:
        progress(min(1.0, max(0.0, monotonic() - start) / seconds))
        await asyncio.sleep(PROGRESS_INTERVAL)
