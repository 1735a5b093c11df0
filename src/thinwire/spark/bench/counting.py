"""Processor time and memory of this process and everything below it, and methods that take turns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from statistics import median
from threading import Event, Thread
from time import perf_counter, process_time
from types import TracebackType
from typing import Any, NamedTuple, Self

EVERY = 0.5
"""seconds between two looks at memory"""


class Spent(NamedTuple):
    """What a run took: processor seconds of all processes, and seconds on the clock."""

    cpu: float
    wall: float


def tree_cpu() -> float:
    """Processor seconds that this process, those below it and those of them that have ended have used so far."""
    import psutil

    used = 0.0
    for process in _tree():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        used += times.user + times.system + times.children_user + times.children_system
    return used


def spent(action: Callable[[], object], cpu: Callable[[], float] = tree_cpu) -> Spent:
    """What an action takes."""
    used, begun = cpu(), perf_counter()
    action()
    wall = perf_counter() - begun
    return Spent(cpu() - used, wall)


def race(
    methods: Mapping[str, Callable[[], object]],
    rounds: int,
    progress: Callable[[float], None],
    *,
    warm: bool = True,
    alone: Collection[str] = (),
) -> dict[str, list[Spent]]:
    """Run all methods in every round, each round in another order; before that once, uncounted, where `warm` is set.

    alone: methods that run in this process and nowhere else, of which only its own time counts
    """
    names = list(methods)
    found: dict[str, list[Spent]] = {name: [] for name in names}
    for number in range(0 if warm else 1, rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            took = spent(methods[name], process_time if name in alone else tree_cpu)
            if number:
                found[name].append(took)
        progress(number / rounds)
    return found


def ratio(of: list[Spent], to: list[Spent]) -> float:
    """The median over rounds of the processor time of one method as a multiple of another's.

    >>> ratio([Spent(2.0, 9.0), Spent(3.0, 9.0)], [Spent(1.0, 9.0), Spent(1.0, 9.0)])
    2.5
    """
    return median(mine.cpu / theirs.cpu for mine, theirs in zip(of, to, strict=True))


def rate(items: int, runs: list[Spent]) -> float:
    """Items a processor second, the median over rounds.

    >>> rate(300, [Spent(2.0, 1.0), Spent(3.0, 1.0), Spent(4.0, 1.0)])
    100.0
    """
    return median(items / run.cpu for run in runs)


class Peak:
    """The most memory that was resident while it is open: of all processes together, and of the largest worker."""

    def __init__(self) -> None:
        self.all = self.worker = 0
        self._over = Event()
        self._thread = Thread(target=self._look_again, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look_again(self) -> None:
        while not self._over.wait(EVERY):
            self._look()

    def _look(self) -> None:
        import psutil

        together = 0
        for place, process in enumerate(_tree()):
            try:
                memory, name = int(process.memory_info().rss), process.name()
            except psutil.Error:
                continue
            together += memory
            if place and "python" in name:
                self.worker = max(self.worker, memory)
        self.all = max(self.all, together)


def _tree() -> list[Any]:
    """This process first."""
    import psutil

    here = psutil.Process()
    return [here, *here.children(recursive=True)]
