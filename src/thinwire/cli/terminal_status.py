"""A line on a terminal that moves while work goes on; nothing where standard error is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

EVERY = 0.2
"""seconds between two looks"""


@contextmanager
def status(tell: Callable[[], str], waiting: str) -> Iterator[None]:
    """Show what `tell` says, looked at now and then by the running loop; before the first look, `waiting`."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(waiting) as line:
        watch = asyncio.get_running_loop().create_task(_watch(lambda: line.update(tell())))
        try:
            yield
        finally:
            watch.cancel()


async def _watch(look: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(EVERY)
        look()
