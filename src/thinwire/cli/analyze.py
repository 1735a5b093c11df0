"""`thinwire analyze PATH...`: estimate the savings on recorded events and write a plan, on Spark."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thinwire.cli.connection_options import (
    BrokerAccess,
    Credentials,
    SchemaFileOption,
    TolerancesOption,
    read_names,
    read_schema,
    read_tolerances,
)
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Column, Output, write_atomically
from thinwire.cli.spark_options import MasterOption, progress_bar, spark_session
from thinwire.cli.version import installed_version
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.analysis import AnalysisReport, AnalysisRequest, Strategy
    from thinwire.analysis.strategies import Packing


PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH...", help="JSON lines, CSV or Parquet, also gzipped; or a folder of Parquet files."),
]


@dataclass(frozen=True)
class AnalyzeOptions:
    topic: str | None = option(None, "Name of the topic.", metavar="NAME")
    subscribe: str | None = option(None, "Analyse the log of this topic instead of files.", metavar="TOPIC")
    servers: str = option("", "The broker, for --subscribe.", metavar="URL", envvar="THINWIRE_URL")
    time: str | None = option(None, "Property with the event time.", metavar="NAME")
    source: str | None = option(None, 'Properties that identify a source; "" if there is only one.', metavar="A,B")
    rate: float | None = option(None, "Events per second, if events have no time.", metavar="N")
    schema: SchemaFileOption = None
    tolerance: TolerancesOption = None
    levels: str = option("0,0.1,0.5,1", "Tolerances to try, in % of each number's range; 0 is exact.", metavar="P,P")
    linger: str = option("0.005,0.1", "Linger times to try, in seconds.", metavar="S,S")
    packing: str = option(
        "none,dictionary", "Packings of JSON frames to try: none, deflate, dictionary.", metavar="P,P"
    )
    max_linger: float | None = option(None, "Longest linger of the plan, in seconds.", metavar="S", min=0)
    level: str | None = option(None, "Tolerance level of the plan; default: the knee of the Pareto front.", metavar="P")
    train: float = option(0.5, "Fraction of the events used for training.", metavar="X")
    chunk: int = option(200_000, "Events per chunk.", metavar="N", min=1)
    report: Path | None = option(None, "Write the report to this HTML file.", metavar="FILE")
    plan: Path | None = option(None, "Write the plan to this TOML file.", metavar="FILE")
    rejects: str | None = option(None, "Write rejected lines to this folder, as JSON lines.", metavar="FOLDER")
    work: Path | None = option(None, "Empty folder shared by driver and executors.", metavar="FOLDER")

    def check(self, paths: list[str], master: str) -> None:
        """Raise `ConfigError` for options that contradict each other, and for missing files."""
        if bool(paths) == (self.subscribe is not None):
            raise ConfigError("give files to analyse, or a topic with --subscribe", paths=paths)
        for path in paths:
            if "://" not in path and not Path(path).exists():
                raise ConfigError("no such file", path=path)
        if not master.startswith("local") and self.work is None:
            raise ConfigError("on a cluster give a folder shared by driver and executors: --work", master=master)

    def request(self, paths: list[str]) -> AnalysisRequest:
        """Return the events and strategies to evaluate."""
        from thinwire.analysis import AnalysisRequest, Goal

        lingers = _numbers(self.linger, "linger")
        levels = _numbers(self.levels, "levels")
        return AnalysisRequest(
            self.topic or self.subscribe or _topic_name(paths),
            strategies=_strategies(read_tolerances(self.tolerance), levels, lingers, _packings(self.packing)),
            goal=Goal(_level_name(self.level), max(lingers) if self.max_linger is None else self.max_linger),
            share=self.train,
            dimensions=read_names(self.source),
            time=self.time,
            rate=self.rate,
            schema=read_schema(self.schema),
            chunk=self.chunk,
        )


@with_options
def analyze(
    paths: PathsArgument = None,
    *,
    options: AnalyzeOptions,
    master: MasterOption = "local[*]",
    credentials: Credentials,
    output: Output,
) -> None:
    """Evaluate publishing strategies on recorded events.

    Schema and ranges are inferred from the first part of the events; all
    figures are of the remaining part. Nothing is sent. Exits with 1 if a
    bound was exceeded, with 2 if the input cannot be analysed.

    \b
    thinwire analyze rooms.jsonl --report report.html --plan plan.toml
    thinwire analyze lake/rooms --time ts --source room --linger 0.005,0.1,1
    thinwire analyze --subscribe building.rooms --servers nats://broker:4222
    """
    from thinwire.analysis import render_page
    from thinwire.topics.topic_plan import write_plan

    options.check(paths or [], master)
    found = _run(master, paths or [], options, BrokerAccess(options.servers, credentials))
    command = shlex.join(["thinwire", *sys.argv[1:]]) if len(sys.argv) > 1 else ""
    found = replace(found, command=command, version=installed_version())
    if options.report is not None:
        write_atomically(options.report, render_page(found))
    if options.plan is not None:
        write_atomically(options.plan, write_plan(found.to_plan()))
    _show(output, found)
    written = {"report": options.report, "plan": options.plan, "rejects": options.rejects}
    files = {name: str(path) for name, path in written.items() if path is not None}
    for name, path in files.items():
        if name != "rejects" or found.rejected:
            output.note(f"{name}: {path}")
    output.document({**found.to_document(), **files})
    if not found.is_guarantee_met:
        raise typer.Exit(1)


def _show(output: Output, report: AnalysisReport) -> None:
    """Print the strategies, those on the Pareto front marked, and the result in a sentence."""
    from thinwire.analysis.report import COLUMNS

    front = {rated.name for rated in report.front}
    columns: dict[str, Column] = {
        "": lambda rated: (">" if rated is report.chosen else "") + ("*" if rated.name in front else ""),
        **{column.title: column.cell for column in COLUMNS if column.in_terminal},
    }
    output.records(f"{report.topic}: {report.chosen.outcome.events:,} events held out", columns, report.by_saving)
    output.note("* on the Pareto front   > the plan")
    if report.rejected:
        first = report.rejects[0]
        output.note(f"{report.rejected:,} lines are not events, first {first.file}:{first.line}: {first.reason}")
    output.note(report.sentence)


def _run(master: str, paths: list[str], options: AnalyzeOptions, access: BrokerAccess) -> AnalysisReport:
    from thinwire.spark.jobs import analyze as job

    request = options.request(paths)
    with progress_bar(f"analysing {request.topic}") as progress, spark_session(master, "thinwire analyze") as spark:
        settings: dict[str, Any] = {"work": options.work, "rejects": options.rejects, "progress": progress}
        if options.subscribe is None:
            return job.analyze(spark, paths, request, **settings)
        return job.analyze_topic(spark, access.url, options.subscribe, request, **settings, **access.options())


def _strategies(
    tolerances: dict[str, float | str], percents: list[float], lingers: list[float], packings: list[Packing]
) -> list[Strategy]:
    """Return the grid: a level per percentage, and one for the tolerances given by name."""
    from thinwire.analysis import EXACT, Level, grid

    levels = [Level(f"{p:g} %", p / 100) if p else EXACT for p in percents]
    if tolerances:
        levels.append(Level("as asked", requested=tuple(tolerances.items())))
    return grid(levels, lingers=lingers, packings=packings)


def _packings(text: str) -> list[Packing]:
    """Parse comma-separated packings, each once.

    >>> _packings("none, deflate")
    ['none', 'deflate']
    """
    choices: tuple[Packing, ...] = ("none", "deflate", "dictionary")
    requested = set(read_names(text) or ())
    found = [name for name in choices if name in requested]
    if not found or len(found) != len(requested):
        raise ConfigError("write none, deflate or dictionary, separated by commas", packing=text)
    return found


def _level_name(text: str | None) -> str | None:
    """Return the level name used in tables.

    >>> _level_name("0.5"), _level_name("0"), _level_name("as asked")
    ('0.5 %', 'exact', 'as asked')
    """
    if text is None or text in ("exact", "as asked"):
        return text
    (percent,) = _numbers(text.removesuffix("%"), "level") or [0.0]
    return f"{percent:g} %" if percent else "exact"


def _numbers(text: str, option: str) -> list[float]:
    """Parse comma-separated numbers, each once.

    >>> _numbers("0.005, 0.1", "linger")
    [0.005, 0.1]
    """
    try:
        found = list(dict.fromkeys(map(float, read_names(text) or ())))
    except ValueError:
        raise ConfigError("write numbers separated by commas", **{option: text}) from None
    if not found or not all(0 <= number < 1e6 for number in found):
        raise ConfigError("write numbers of at least zero, separated by commas", **{option: text})
    return found


def _topic_name(paths: list[str]) -> str:
    """Derive a topic name from a file name.

    >>> _topic_name(["data/living rooms.jsonl.gz"])
    'living-rooms'
    """
    stem = Path(paths[0].rstrip("/")).name.partition(".")[0]
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in stem) or "events"
