"""Running a Spark action so that it can be watched and stopped.

The action runs in a thread of its own under a name. Meanwhile the caller's thread tells how many tasks are done, and an
interruption (Ctrl-C, or an error of whoever is told) cancels what runs under the name, and nothing else of the session.
A session in this process and a remote one (Spark Connect) have different words for that: `Local` and `Remote`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, Protocol, TypeVar, cast
from uuid import uuid4

from pyspark.sql import SparkSession

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""told how many tasks are done, and how many there are as far as that is known"""

PULSE = 0.25


class ActionMonitor(Protocol):
    """One action under way."""

    def begin(self) -> None:
        """Whatever this thread starts from now on belongs to the action."""

    def tasks(self) -> tuple[int, int]:
        """How many tasks are done, and of how many."""

    def cancel(self) -> None:
        """Stop it."""

    def end(self) -> None:
        """It is over."""


def watched(spark: SparkSession, action: Callable[[], T], progress: Progress | None = None) -> T:
    """The result of an action, watched; it is cancelled when the caller is interrupted."""
    name = f"thinwire-{uuid4().hex}"
    watch: ActionMonitor = Remote(spark, name) if is_remote(spark) else Local(spark, name)
    future: Future[T] = Future()
    Thread(target=_run, args=(watch, action, future), daemon=True).start()
    try:
        while not wait([future], timeout=PULSE).done:
            if progress is not None:
                progress(*watch.tasks())
    except BaseException:
        watch.cancel()
        raise
    finally:
        watch.end()
    return future.result()


def is_remote(spark: SparkSession) -> bool:
    """Is the session one of Spark Connect?"""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class Local:
    """An action of a session whose driver is this process."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._name = name

    def begin(self) -> None:
        self._context.setJobGroup(self._name, "thinwire", interruptOnCancel=True)

    def tasks(self) -> tuple[int, int]:
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(self._name)]
        stages = [self._tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(s.numCompletedTasks for s in stages if s), sum(s.numTasks for s in stages if s)

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._name)

    def end(self) -> None: ...


class Remote:
    """An action of a Spark Connect session, which tells its progress by itself."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        self._tasks = (0, 0)
        self._handler = cast(Any, self._on_progress)  # any function of that shape will do, whatever Spark's types say
        spark.registerProgressHandler(self._handler)

    def begin(self) -> None:
        self._spark.addTag(self._name)

    def tasks(self) -> tuple[int, int]:
        return self._tasks

    def cancel(self) -> None:
        self._spark.interruptTag(self._name)

    def end(self) -> None:
        self._spark.removeProgressHandler(self._handler)

    def _on_progress(
        self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        told = list(stages or ())
        if told:
            self._tasks = sum(s.num_completed_tasks for s in told), sum(s.num_tasks for s in told)


def _run(watch: ActionMonitor, action: Callable[[], T], future: Future[T]) -> None:
    try:
        watch.begin()
        future.set_result(action())
    except BaseException as problem:  # whoever waits raises it
        future.set_exception(problem)
