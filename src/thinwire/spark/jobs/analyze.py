"""Strategy analysis of recorded events on Spark.

Spark parses and sorts the files, then runs the cells of `analyze_sorted` as a sweep. The figures equal those of
`analyze_files`, which works without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.analysis import AnalysisReport, AnalysisRequest, Reject, Rejects, analyze_sorted
from thinwire.analysis.analysis_run import create_time_reader
from thinwire.analysis.event_files import MAX_EXAMPLES, TimeReader
from thinwire.analysis.work_folder import WorkFolder, open_work_folder
from thinwire.brokers.nats.blocking import open_source
from thinwire.errors import ConfigError
from thinwire.spark.action_progress import Progress, run_action
from thinwire.spark.jobs.analyze_input import read_files, read_head, read_topic_rows
from thinwire.spark.jobs.input_files import number_in_files, report_unreadable_file
from thinwire.spark.parameter_sweep import run_cells
from thinwire.topics.log_tables.source_broker import read_topic

__all__ = ["analyze", "analyze_topic"]

_ORDER = ("seconds", "file", "block", "line")


def analyze(
    spark: SparkSession,
    paths: Sequence[str],
    request: AnalysisRequest,
    *,
    work: Path | None = None,
    rejects: str | None = None,
    progress: Progress | None = None,
) -> AnalysisReport:
    """Analyse files: JSON lines, CSV and Parquet, or folders of Parquet.

    work: an empty folder that driver and executors reach by the same path; by default a temporary one
    rejects: a folder for the lines that are not events, as a table; by default they are only counted and sampled
    """
    with open_work_folder(work) as folder, report_unreadable_file():
        return _analyze(spark, partial(read_files, spark, paths), request, folder, rejects, progress)


def analyze_topic(
    spark: SparkSession,
    servers: str,
    topic: str,
    request: AnalysisRequest,
    *,
    work: Path | None = None,
    rejects: str | None = None,
    progress: Progress | None = None,
    **connection: Any,
) -> AnalysisReport:
    """Analyse the events of a topic log with the topic's schema."""
    with open_source(servers, **connection) as source:
        schema = read_topic(source, topic).schema
    options = {"servers": servers, "subscribe": topic, **connection}
    read_rows = partial(read_topic_rows, spark.read.format("thinwire").options(**options).load(), schema)
    with open_work_folder(work) as folder:
        request = replace(request, topic=topic, schema=schema)
        report = _analyze(spark, read_rows, request, folder, rejects, progress)
    note = "The events come from a topic log: values that its publishers suppressed are not included."
    return replace(report, notes=(note,))


def _analyze(
    spark: SparkSession,
    read_rows: Callable[[TimeReader | None], DataFrame],
    request: AnalysisRequest,
    folder: WorkFolder,
    rejects_to: str | None,
    progress: Progress | None,
) -> AnalysisReport:
    needs_head = not request.rate and request.schema is None
    reader = create_time_reader(read_head(read_rows(None)) if needs_head else [], request)
    parsed = str(folder.path / "parsed")
    run_action(spark, partial(read_rows(reader).write.parquet, parsed), progress)
    rows = spark.read.parquet(parsed)
    rejects = _collect_rejects(rows, rejects_to)
    if request.schema is None:
        rows = number_in_files(rows)
    _sort(spark, rows, folder, progress)
    if reader is not None:
        request = replace(request, time=reader.name)
    report = analyze_sorted(folder, request, partial(run_cells, spark, progress=progress), rejects)
    return replace(report, created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))


def _collect_rejects(rows: DataFrame, to: str | None) -> Rejects:
    """Count the lines that are not events, keep the first ones, and write all of them if requested."""
    count = rows.where(F.col("reason").isNotNull()).count()
    if not count:
        return Rejects()
    lines = number_in_files(rows).where(F.col("reason").isNotNull()).select("file", "line", "text", "reason")
    if to is not None:
        lines.orderBy("file", "line").write.mode("overwrite").json(to)
    first = lines.orderBy("file", "line").limit(MAX_EXAMPLES).collect()
    return Rejects(count, [Reject(row.file, row.line, row.text, row.reason) for row in first])


def _sort(spark: SparkSession, rows: DataFrame, folder: WorkFolder, progress: Progress | None) -> None:
    good = rows.where(F.col("event").isNotNull()).orderBy(*_ORDER).select("seconds", "file", "line", "event")
    run_action(spark, lambda: good.write.parquet(str(folder.sorted_folder)), progress)
    if not folder.sorted_folder.is_dir():
        raise ConfigError("driver and executors must share the working folder", work=str(folder.path))
