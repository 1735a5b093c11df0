"""Processor time and memory of this process and everything below it, and methods that take turns.

The session that bars run in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from threading import Event, Thread
from time import perf_counter, process_time
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


EVERY = 0.5
"""seconds between two looks at the processes"""

WORKER = "pyspark.daemon"
"""in the command of Python workers, and of the process that they are forked from"""


class Spent(NamedTuple):
    """What a run took: processor seconds of all processes, and seconds on the clock."""

    cpu: float
    wall: float


class Processes:
    """Processor time of this process, those below it and those of them that have ended.

    Nobody waits for a Python worker of Spark when it ends, so that the system forgets what it has used; here what was
    seen of it last counts on.
    """

    def __init__(self) -> None:
        self._here: dict[tuple[int, float], float] = {}
        self._workers: dict[tuple[int, float], float] = {}

    def look(self) -> None:
        """See what everybody has used so far."""
        import psutil

        self._here.clear()
        for process in _tree():
            try:
                times, key = process.cpu_times(), (process.pid, process.create_time())
                worker = key in self._workers or WORKER in process.cmdline()
            except psutil.Error:
                continue
            waited_for = times.children_user + times.children_system
            (self._workers if worker else self._here)[key] = times.user + times.system + waited_for

    @property
    def cpu(self) -> float:
        """Seconds, as of the last look."""
        return sum(self._here.values()) + sum(self._workers.values())


def spent(action: Callable[[], object], *, alone: bool = False) -> Spent:
    """What an action takes; alone: it runs in this process and nowhere else, of which only the own time counts."""
    if alone:
        used, begun = process_time(), perf_counter()
        action()
        return Spent(process_time() - used, perf_counter() - begun)
    processes = Processes()
    processes.look()
    used, begun = processes.cpu, perf_counter()
    with _Looking(processes.look):
        action()
    wall = perf_counter() - begun
    processes.look()
    return Spent(processes.cpu - used, wall)


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
            took = spent(methods[name], alone=name in alone)
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


class _Looking:
    """Looks again and again while it is open."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look_once = look
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
            self._look_once()


class Peak(_Looking):
    """The most memory that was resident while it is open: of all processes together, and of the largest worker."""

    def __init__(self) -> None:
        super().__init__(self._look)
        self.all = self.worker = 0

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


TWO = "local[2]"
SHUFFLED = 8
"""parts after a shuffle, for every method alike; the default of 200 is for clusters"""
MEMORY = "4g"


@contextmanager
def running(master: str = TWO) -> Iterator[SparkSession]:
    """A session of one's own, stopped at the end."""
    from thinwire.spark.session import session

    settings = {"spark.driver.memory": MEMORY, "spark.sql.shuffle.partitions": str(SHUFFLED)}
    made = session(master, app="thinwire bench", ship=False, **settings)
    try:
        yield made
    finally:
        made.stop()


def drain(rows: DataFrame) -> None:
    """Make all rows with all their columns, and throw them away."""
    rows.write.format("noop").mode("overwrite").save()
