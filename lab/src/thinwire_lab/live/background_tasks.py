"""Tasks that run in the background of a measurement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

PROGRESS_INTERVAL = 0.25


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended. Their errors are ignored."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


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
