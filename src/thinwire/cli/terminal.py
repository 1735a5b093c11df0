"""Running commands: clean shutdown on Ctrl-C and SIGTERM, time limits, and a status line on a terminal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from rich.console import Console

from thinwire.cli.output import print_status

CLOSE_TIMEOUT = 5.0
"""seconds to close connections after Ctrl-C"""
FORCED_CANCEL_INTERVAL = 0.1
REFRESH_INTERVAL = 0.2

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], *, close_timeout: float = CLOSE_TIMEOUT) -> T:
    """Run a coroutine to its end. Ctrl-C and SIGTERM cancel it, wait until it has closed, and raise KeyboardInterrupt.

    close_timeout: seconds until an unfinished shutdown is cancelled, for example because the broker is unreachable
    """
    logging.basicConfig(format="thinwire: %(message)s", level=logging.WARNING)
    try:
        return asyncio.run(_run_with_signals(work, close_timeout))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _run_with_signals(work: Coroutine[Any, Any, T], close_timeout: float) -> T:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    shutdown = _Shutdown(task, close_timeout)
    # A shell starts background jobs with SIGINT ignored; installing a handler would undo that.
    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, shutdown.request)
    try:
        return await work
    finally:
        shutdown.finish()
        for number in handled:
            loop.remove_signal_handler(number)


class _Shutdown:
    """Cancels a task on request, and again by force after a timeout or a second request."""

    def __init__(self, task: asyncio.Task[Any], timeout: float) -> None:
        self._task = task
        self._timeout = timeout
        self._timer: asyncio.TimerHandle | None = None

    def request(self) -> None:
        if self._timer is not None:
            self._cancel_repeatedly()
            return
        self._task.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._timeout, self._on_timeout)

    def finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_timeout(self) -> None:
        print_status("the broker does not respond; unacknowledged messages may be lost")
        self._cancel_repeatedly()

    def _cancel_repeatedly(self) -> None:
        """Cancel the current and every later wait: each part that closes may send a request to the broker."""
        self.finish()
        self._task.cancel()
        self._timer = asyncio.get_running_loop().call_later(FORCED_CANCEL_INTERVAL, self._cancel_repeatedly)


class Interruptible:
    """Context in which Ctrl-C ends the block and nothing else, so that the command can finish in order.

    interrupted: whether the block was ended by Ctrl-C
    """

    def __init__(self) -> None:
        self.interrupted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task = asyncio.current_task()
        if kind is asyncio.CancelledError and task is not None and task.cancelling():
            task.uncancel()
            self.interrupted = True
        return self.interrupted


async def run_for(seconds: float | None, work: Awaitable[None]) -> bool:
    """Await `work` until it ends, the time is over or Ctrl-C is pressed. Return whether it was interrupted."""
    with Interruptible() as block, suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work
    return block.interrupted


@contextmanager
def status_text(initial: str) -> Iterator[Callable[[str], None]]:
    """Show a text on a terminal; yield a function that replaces it. Print nothing if stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(initial) as line:
        yield line.update


@contextmanager
def status_line(text: Callable[[], str], initial: str) -> Iterator[None]:
    """Show `text()` on a terminal and refresh it while the block runs."""

    async def refresh() -> None:
        while True:
            await asyncio.sleep(REFRESH_INTERVAL)
            update(text())

    with status_text(initial) as update:
        task = asyncio.get_running_loop().create_task(refresh())
        try:
            yield
        finally:
            task.cancel()
