"""Running of commands: Ctrl-C and SIGTERM, time limits, and a status line on a terminal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console

from thinwire.cli.output import print_status

CLOSE_TIMEOUT = 5.0
"""seconds to close connections after Ctrl-C"""
CANCEL_INTERVAL = 0.1
"""seconds between two cancellations after `CLOSE_TIMEOUT`"""
REFRESH_INTERVAL = 0.2
"""seconds between two updates of the status line"""

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], *, close_timeout: float = CLOSE_TIMEOUT) -> T:
    """Run a coroutine. After Ctrl-C or SIGTERM, cancel it, wait until it has ended, and raise KeyboardInterrupt.

    close_timeout: seconds in which the cancelled coroutine can close its connections; then requests are cancelled, too
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
        shutdown.stop_timer()
        for number in handled:
            loop.remove_signal_handler(number)


class _Shutdown:
    """Cancels a task on request. After a timeout or a second request, cancels it repeatedly until it ends."""

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

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_timeout(self) -> None:
        print_status("the broker does not respond; messages that it has not acknowledged may be lost")
        self._cancel_repeatedly()

    def _cancel_repeatedly(self) -> None:
        """Cancel the task now and at intervals: every connection that is closed may wait for the broker again."""
        self.stop_timer()
        self._task.cancel()
        self._timer = asyncio.get_running_loop().call_later(CANCEL_INTERVAL, self._cancel_repeatedly)


@contextmanager
def interruptible() -> Iterator[asyncio.Event]:
    """Let Ctrl-C and SIGTERM end the block instead of the command. Yield an event that is set in this case."""
    interrupted = asyncio.Event()
    try:
        yield interrupted
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            raise
        task.uncancel()
        interrupted.set()


async def run_for(seconds: float | None, work: Awaitable[None]) -> bool:
    """Await `work` until it ends, the time is over or Ctrl-C is pressed. Return whether Ctrl-C was pressed."""
    time_limit = asyncio.timeout(seconds)
    with interruptible() as interrupted:
        try:
            async with time_limit:
                await work
        except TimeoutError:
            if not time_limit.expired():
                raise  # an error of `work`
    return interrupted.is_set()


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
