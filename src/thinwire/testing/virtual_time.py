"""Virtual time for asyncio: when nothing is ready to run, the clock jumps to the next timer.

A test of an hour with timeouts, retries and leases takes milliseconds and has the same order of events in every run.

>>> async def wait_an_hour():
...     started = WallClock().now()
...     await asyncio.sleep(3600)
...     return WallClock().now() - started
>>> run(wait_an_hour())
3600.0
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, TypeVar, TypeVarTuple
from unittest.mock import patch

from thinwire.clock import WallClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START = 1_700_000_000.0
"""time in seconds since the epoch at which a run begins, unless another one is given"""


class PauseSwitch:
    """Pauses and resumes the tasks of one context, as SIGSTOP and SIGCONT pause and resume a process.

    While it is paused, their callbacks and due timers are held back. They run in the same order after `resume`, except
    for those that were cancelled by then.
    """

    def __init__(self) -> None:
        self.paused = False
        self.held: list[_PausableCallback] = []

    def create_task(self, coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Create a task that this switch controls, with all tasks that it creates."""
        context = copy_context()
        context.run(_switch.set, self)
        return asyncio.get_running_loop().create_task(coroutine, name=name, context=context)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        held, self.held = self.held, []
        for callback in held:
            callback.schedule_again()


_switch: ContextVar[PauseSwitch | None] = ContextVar("_switch", default=None)


class _PausableCallback:
    """A callback that runs unless its switch is paused."""

    def __init__(self, switch: PauseSwitch, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.switch = switch
        self.callback = callback
        self.args = args
        self.handle: asyncio.Handle | None = None
        self.context: Context | None = None

    def __call__(self) -> None:
        if self.switch.paused:
            self.context = copy_context()
            self.switch.held.append(self)
        elif self.handle is None or not self.handle.cancelled():
            self.callback(*self.args)

    def schedule_again(self) -> None:
        asyncio.get_running_loop().call_soon(self, context=self.context)


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks have the same order in every run."""

    numbers = count()

    def __init__(self, *args: Any, **options: Any) -> None:
        self._number = next(self.numbers)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop for tasks without network I/O. Its clock moves only when no callback is ready.

    Functions for an executor run at once in the loop's thread, because waiting for a thread would depend on real time.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_TimerSelector(self))
        self.set_task_factory(lambda loop, coroutine, **options: _Task(coroutine, loop=loop, **options))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        pausable = _make_pausable(callback, args, context)
        if pausable is None:
            return super().call_soon(callback, *args, context=context)
        pausable.handle = super().call_soon(pausable, context=context)
        return pausable.handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        pausable = _make_pausable(callback, args, context)
        if pausable is None:
            return super().call_at(when, callback, *args, context=context)
        pausable.handle = handle = super().call_at(when, pausable, context=context)
        return handle

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def _make_pausable(
    callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
) -> _PausableCallback | None:
    """Return a callback that the switch of the context pauses; None without a switch or if it is pausable already."""
    switch = _switch.get() if context is None else context.get(_switch)
    if switch is None or isinstance(callback, _PausableCallback):
        return None
    return _PausableCallback(switch, callback, args)


class _TimerSelector(selectors.DefaultSelector):
    """Moves the clock of the loop instead of waiting for a timer."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("no task can continue: none is ready and no timer is set")
        if not ready and timeout is not None and timeout > 0:
            self._loop.advance(timeout)
        return ready


def run(main: Coroutine[Any, Any, T], *, start: float = START) -> T:
    """Run a coroutine under virtual time and return its result, as `asyncio.run` does.

    start: what `WallClock` returns at the beginning, in seconds since the epoch; it advances with the loop's time,
        which begins at 0
    """
    loop = VirtualTimeLoop()
    wall_clock = patch.object(WallClock, "now", lambda _: start + loop.time())
    with asyncio.Runner(loop_factory=lambda: loop) as runner, wall_clock:
        return runner.run(main)
