"""Spark actions with progress and cancellation.

The action runs in its own thread under a job group. The calling thread reports progress. Ctrl-C or an error of the
progress callback cancels this action and no other of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, TypeVar, cast
from uuid import uuid4

from pyspark.sql import SparkSession

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""called with the number of completed tasks and of all tasks known so far"""

POLL_INTERVAL = 0.25


def run_action(spark: SparkSession, action: Callable[[], T], progress: Progress | None = None) -> T:
    """Run an action and return its result. Cancel it if the caller is interrupted."""
    name = f"thinwire-{uuid4().hex}"
    monitor = RemoteMonitor(spark, name) if is_remote(spark) else LocalMonitor(spark, name)
    future: Future[T] = Future()

    def run() -> None:
        try:
            monitor.begin()
            future.set_result(action())
        except BaseException as problem:  # raised by the waiting thread
            future.set_exception(problem)

    Thread(target=run, daemon=True).start()
    try:
        while not wait([future], timeout=POLL_INTERVAL).done:
            if progress is not None:
                progress(*monitor.tasks())
    except BaseException:
        monitor.cancel()
        raise
    finally:
        monitor.end()
    return future.result()


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session uses Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class LocalMonitor:
    """Counts the tasks of an action, and cancels it, in a session whose driver is this process."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._name = name

    def begin(self) -> None:
        """Assign the jobs that this thread starts to the action."""
        self._context.setJobGroup(self._name, "thinwire", interruptOnCancel=True)

    def tasks(self) -> tuple[int, int]:
        """Return the number of completed tasks and of all tasks."""
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(self._name)]
        stages = [self._tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(s.numCompletedTasks for s in stages if s), sum(s.numTasks for s in stages if s)

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._name)

    def end(self) -> None: ...


class RemoteMonitor:
    """Counts the tasks of an action, and cancels it, in a Spark Connect session, which reports to a handler."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        self._tasks = (0, 0)
        self._handler = cast(Any, self._on_progress)  # the type annotation of Spark is narrower than what it accepts
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
        known = list(stages or ())
        if known:
            self._tasks = sum(s.num_completed_tasks for s in known), sum(s.num_tasks for s in known)
