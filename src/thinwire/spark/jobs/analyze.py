"""Strategy analysis of recorded events on Spark.

Spark parses and sorts the files. The held-out part is cut into chunks. Every group of strategies runs on every chunk as
a cell of a sweep. The figures equal those of `in_process`, which works without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.analysis import AnalysisReport, Reject, Rejects, TopicReport, Wanted, in_process, staged
from thinwire.analysis.analysis_cells import Cell
from thinwire.analysis.analysis_run import stamper_for, working
from thinwire.analysis.event_files import SAMPLED
from thinwire.analysis.event_times import Stamper
from thinwire.analysis.work_folder import Workplace
from thinwire.brokers.nats.blocking import open_source
from thinwire.errors import ConfigError, JobFailed
from thinwire.spark.action_progress import Progress, run_action
from thinwire.spark.jobs.analyze_input import head_of, landed, naming_damage, numbered, parsed
from thinwire.spark.parameter_sweep import sweep
from thinwire.topics.log_tables import read_topic

__all__ = ["analyze", "analyze_topic", "in_process"]

_ORDER = ("seconds", "file", "block", "line")


def analyze(
    spark: SparkSession,
    paths: Sequence[str],
    wanted: Wanted,
    *,
    work: Path | None = None,
    rejects: str | None = None,
    command: str = "",
    version: str = "",
    progress: Progress | None = None,
) -> AnalysisReport:
    """Analyse files: JSON lines, CSV and Parquet, or folders of Parquet.

    work: an empty folder that driver and executors reach by the same path; by default a temporary one
    rejects: a folder for the lines that are not events, as a table; by default they are only counted and sampled
    """
    frame = partial(parsed, spark, paths)
    with working(work) as folder, naming_damage():
        found = _analyzed(spark, frame, wanted, folder, rejects, progress)
    return AnalysisReport([found], command, _now(), version, wanted.share)


def analyze_topic(
    spark: SparkSession,
    servers: str,
    topic: str,
    wanted: Wanted,
    *,
    work: Path | None = None,
    rejects: str | None = None,
    command: str = "",
    version: str = "",
    progress: Progress | None = None,
    **connection: Any,
) -> AnalysisReport:
    """Analyse the events of a topic log with the topic's schema."""
    with open_source(servers, **connection) as source:
        schema = read_topic(source, topic).schema
    options = {"servers": servers, "subscribe": topic, **connection}
    frame = partial(landed, spark.read.format("thinwire").options(**options).load(), schema)
    with working(work) as folder:
        found = _analyzed(spark, frame, replace(wanted, topic=topic, schema=schema), folder, rejects, progress)
    note = "The events come from a topic log: values that its publishers suppressed are not included."
    return AnalysisReport([found], command, _now(), version, wanted.share, (note,))


def _analyzed(
    spark: SparkSession,
    frame: Callable[[Stamper | None], DataFrame],
    wanted: Wanted,
    work: Path,
    rejects_to: str | None,
    progress: Progress | None,
) -> TopicReport:
    stamper = None if wanted.rate else stamper_for([] if wanted.schema else head_of(frame(None)), wanted)
    rows = _parsed_once(spark, frame(stamper), work, progress)
    rejects = _rejected(rows, rejects_to)
    if wanted.schema is None:
        rows = numbered(rows)
    _sort(spark, rows, work, progress)
    if stamper is not None:
        wanted = replace(wanted, time=stamper.name)
    return staged(work, wanted, _runner(spark, progress), rejects)


def _parsed_once(spark: SparkSession, frame: DataFrame, work: Path, progress: Progress | None) -> DataFrame:
    """Write the parsed rows to a table, which is read several times."""
    path = str(work / "parsed")
    run_action(spark, lambda: frame.write.parquet(path), progress)
    return spark.read.parquet(path)


def _rejected(rows: DataFrame, to: str | None) -> Rejects:
    """Count the lines that are not events, keep the first ones, and write all of them if requested."""
    bad = rows.where(F.col("reason").isNotNull())
    count = bad.count()
    if not count:
        return Rejects()
    lines = numbered(rows).where(F.col("reason").isNotNull()).select("file", "line", "text", "reason")
    if to is not None:
        lines.orderBy("file", "line").write.mode("overwrite").json(to)
    first = lines.orderBy("file", "line").limit(SAMPLED).collect()
    return Rejects(count, [Reject(row.file, row.line, row.text, row.reason) for row in first])


def _sort(spark: SparkSession, rows: DataFrame, work: Path, progress: Progress | None) -> None:
    path = str(Workplace(work).sorted_folder)
    good = rows.where(F.col("event").isNotNull()).orderBy(*_ORDER).select("seconds", "file", "line", "event")
    run_action(spark, lambda: good.write.parquet(path), progress)
    if not Path(path).is_dir():
        raise ConfigError("driver and executors must share the working folder", work=str(work))


def _runner(spark: SparkSession, progress: Progress | None) -> Any:
    def run(
        function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
    ) -> list[Mapping[str, Any]]:
        results = sweep(spark, function, cells, weight=weight, progress=progress)
        for result in results:
            if result.figures is None:
                raise JobFailed(f"a cell of the analysis failed: {result.error}", what=result.cell["what"])
        return [result.figures for result in results if result.figures is not None]

    return run


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
