"""Processor time and memory of this process and its descendants, races between methods, and the Spark session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from threading import Event, Thread
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SAMPLE_INTERVAL = 0.5

WORKER = "pyspark.daemon"
"""part of the command of Python workers, and of the process that forks them"""


class ProcessUsage(NamedTuple):
    """Processor seconds of all processes, seconds by the clock, and peak resident bytes.

    memory: of all processes together; worker: of the largest Python process below this one
    """

    cpu: float
    wall: float
    memory: int = 0
    worker: int = 0


class ProcessTree:
    """Processor time and peak memory of this process and its descendants, sampled in a thread within a block.

    The parent of a Python worker of Spark does not wait for it, so the system forgets its time when it ends. The last
    sample of such a worker is kept.
    """

    def __init__(self) -> None:
        self.memory = self.worker_memory = 0
        self._others: dict[tuple[int, float], float] = {}
        self._workers: dict[tuple[int, float], float] = {}
        self._closed = Event()
        self._thread = Thread(target=self._sample_repeatedly, daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        self._sample()

    @property
    def cpu(self) -> float:
        """Seconds up to the last sample, including processes that have ended."""
        return sum(self._others.values()) + sum(self._workers.values())

    def _sample_repeatedly(self) -> None:
        while not self._closed.wait(SAMPLE_INTERVAL):
            self._sample()

    def _sample(self) -> None:
        import psutil

        own = psutil.Process()
        memory = 0
        self._others.clear()
        for process in (own, *own.children(recursive=True)):
            try:
                times, key, resident = (
                    process.cpu_times(),
                    (process.pid, process.create_time()),
                    process.memory_info().rss,
                )
                is_worker = key in self._workers or WORKER in process.cmdline()
                is_python = process != own and "python" in process.name()
            except psutil.Error:
                continue
            of_children = times.children_user + times.children_system
            (self._workers if is_worker else self._others)[key] = times.user + times.system + of_children
            memory += resident
            self.worker_memory = max(self.worker_memory, resident if is_python else 0)
        self.memory = max(self.memory, memory)


def measure_usage(action: Callable[[], object], *, alone: bool = False) -> ProcessUsage:
    """Return the usage of an action.

    alone: whether it runs in this process only, so that only its own time counts; memory is not measured
    """
    if alone:
        used, started = process_time(), perf_counter()
        action()
        return ProcessUsage(process_time() - used, perf_counter() - started)
    with ProcessTree() as processes:
        used, started = processes.cpu, perf_counter()
        action()
        wall = perf_counter() - started
    return ProcessUsage(processes.cpu - used, wall, processes.memory, processes.worker_memory)


def race(
    methods: Mapping[str, Callable[[], object]],
    rounds: int,
    progress: Callable[[float], None],
    *,
    warm: bool = True,
    alone: Collection[str] = (),
) -> dict[str, list[ProcessUsage]]:
    """Run all methods in every round, each round in another order.

    warm: whether an uncounted round comes first
    alone: methods that run in this process only, so that only its own time counts
    """
    names = list(methods)
    found: dict[str, list[ProcessUsage]] = {name: [] for name in names}
    for number in range(0 if warm else 1, rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            usage = measure_usage(methods[name], alone=name in alone)
            if number:
                found[name].append(usage)
        progress(number / rounds)
    return found


def ratio(of: list[ProcessUsage], to: list[ProcessUsage]) -> float:
    """Return the median over rounds of the processor time of one method as a multiple of that of another.

    >>> ratio([ProcessUsage(2.0, 9.0), ProcessUsage(3.0, 9.0)], [ProcessUsage(1.0, 9.0), ProcessUsage(1.0, 9.0)])
    2.5
    """
    return median(mine.cpu / theirs.cpu for mine, theirs in zip(of, to, strict=True))


def rate(items: int, runs: list[ProcessUsage]) -> float:
    """Return the items per processor second, the median over rounds.

    >>> rate(300, [ProcessUsage(2.0, 1.0), ProcessUsage(3.0, 1.0), ProcessUsage(4.0, 1.0)])
    100.0
    """
    return median(items / run.cpu for run in runs)


TWO_CORES = "local[2]"
SHUFFLE_PARTITIONS = 8
"""for every method; the default of 200 is for clusters"""
MEMORY = "4g"


@contextmanager
def spark_session(master: str = TWO_CORES, **conf: str) -> Iterator[SparkSession]:
    """Open a session that is stopped at the end. `conf` has other settings of Spark."""
    from thinwire.spark.session import session

    settings = {"spark.driver.memory": MEMORY, "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS), **conf}
    spark = session(master, app="thinwire bench", ship=False, **settings)
    try:
        yield spark
    finally:
        spark.stop()


def drain(rows: DataFrame) -> None:
    """Compute all rows with all columns and discard them."""
    rows.write.format("noop").mode("overwrite").save()
