"""How a verb on a live broker runs, so that Ctrl-C and SIGTERM always end it cleanly, and soon.

A line on a terminal that moves while work goes on; nothing where standard error is none.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from rich.console import Console

CLOSING = 5.0
"""seconds to close in order after Ctrl-C"""

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], *, patience: float = CLOSING) -> T:
    """Run it to its end. Ctrl-C and SIGTERM cancel it, so that what is open gets closed; then it is interrupted.

    patience: seconds that closing may take; a broker that has gone must not keep anybody
    """
    logging.basicConfig(format="thinwire: %(message)s", level=logging.WARNING)
    try:
        return asyncio.run(_run_until_stopped(work, patience))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _run_until_stopped(work: Coroutine[Any, Any, T], patience: float) -> T:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    ending = _Ending(task, patience)
    # a shell lets what it starts in the background ignore Ctrl-C, and means it
    heeded = [sign for sign in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(sign) is not signal.SIG_IGN]
    for sign in heeded:
        loop.add_signal_handler(sign, ending.request_stop)
    try:
        return await work
    finally:
        ending.over()
        for sign in heeded:
            loop.remove_signal_handler(sign)


class _Ending:
    """Ends a task when told to: politely, and after a while, or when told again, by force."""

    def __init__(self, task: asyncio.Task[Any], patience: float) -> None:
        self._task = task
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None

    def request_stop(self) -> None:
        if self._timer is not None:
            self._insist()
            return
        self._task.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._give_up)

    def over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        print("thinwire: the broker does not answer; what it has not acknowledged may be lost", file=sys.stderr)
        self._insist()

    def _insist(self) -> None:
        """Cancel what is waited for, and what will be: every part that closes may ask the broker something."""
        self.over()
        self._task.cancel()
        self._timer = asyncio.get_running_loop().call_later(0.1, self._insist)


class Interruptible:
    """Inside, Ctrl-C ends what is being waited for and nothing more: the verb goes on behind it and closes in order.

    interrupted: did that happen?
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
