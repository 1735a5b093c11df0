"""`thinwire analyze PATH...`: estimate the savings on recorded events and write a plan, on Spark."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thinwire.cli.connection_options import (
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    SchemaFileOption,
    TolerancesOption,
    read_names,
    read_schema,
    read_tolerances,
    with_options,
)
from thinwire.cli.output import JsonOption, Output, write_atomically
from thinwire.cli.spark_options import MasterOption, progress_bar
from thinwire.cli.version import installed_version
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.analysis import AnalysisReport, AnalysisRequest, Strategy
    from thinwire.analysis.strategies import Packing


def show(output: Output, report: AnalysisReport, written: Mapping[str, Path | str | None]) -> None:
    """Print the strategies with the Pareto front marked, the result in a sentence, and the files that were written."""
    from thinwire.analysis.report import COLUMNS

    columns = [column for column in COLUMNS if column.in_terminal]
    front = {rated.name for rated in report.front}
    rows = []
    for rated in report.by_saving:
        mark = (">" if rated is report.chosen else "") + ("*" if rated.name in front else "")
        rows.append([mark, *(column.cell(rated) for column in columns)])
    title = f"{report.topic}: {report.chosen.outcome.events:,} events held out"
    output.table(title, ["", *(column.title for column in columns)], rows)
    output.note("* on the Pareto front   > the plan")
    if report.rejected:
        first = report.rejects[0]
        output.note(f"{report.rejected:,} lines are not events, first {first.file}:{first.line}: {first.reason}")
    output.note(report.sentence)
    paths = {name: str(path) for name, path in written.items() if path is not None}
    for name, path in paths.items():
        if name != "rejects" or report.rejected:
            output.note(f"{name}: {path}")
    output.document({**report.to_document(), **paths})


PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH...", help="JSON lines, CSV or Parquet, also gzipped; or a folder of Parquet files."),
]
TopicOption = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="Name of the topic.")]
SubscribeOption = Annotated[
    str | None, typer.Option("--subscribe", metavar="TOPIC", help="Analyse the log of this topic instead of files.")
]
ServersOption = Annotated[
    str | None, typer.Option("--servers", metavar="URL", envvar="THINWIRE_URL", help="The broker, for --subscribe.")
]
TimeOption = Annotated[str | None, typer.Option("--time", metavar="NAME", help="Property with the event time.")]
SourceOption = Annotated[
    str | None,
    typer.Option("--source", metavar="A,B", help='Properties that identify a source; "" if there is only one.'),
]
RateOption = Annotated[
    float | None, typer.Option("--rate", metavar="N", help="Events per second, if events have no time.")
]
LevelsOption = Annotated[
    str, typer.Option("--levels", metavar="P,P", help="Tolerances to try, in % of each number's range; 0 is exact.")
]
LingersOption = Annotated[str, typer.Option("--linger", metavar="S,S", help="Linger times to try, in seconds.")]
PackingOption = Annotated[
    str, typer.Option("--packing", metavar="P,P", help="Packings of JSON frames to try: none, deflate, dictionary.")
]
MaxLingerOption = Annotated[
    float | None, typer.Option("--max-linger", metavar="S", help="Longest linger of the plan.", min=0)
]
LevelOption = Annotated[
    str | None,
    typer.Option("--level", metavar="P", help="Tolerance level of the plan; default: the knee of the front."),
]
ShareOption = Annotated[float, typer.Option("--train", metavar="X", help="Share of the events used for training.")]
ChunkOption = Annotated[int, typer.Option("--chunk", metavar="N", help="Events per chunk.", min=1)]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write the report to this HTML file.")
]
PlanOption = Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="Write the plan to this TOML file.")]
RejectsOption = Annotated[
    str | None, typer.Option("--rejects", metavar="FOLDER", help="Write rejected lines to this folder, as JSON lines.")
]
WorkOption = Annotated[
    Path | None, typer.Option("--work", metavar="FOLDER", help="Empty folder shared by driver and executors.")
]


@with_options
def analyze(
    paths: PathsArgument = None,
    topic: TopicOption = None,
    subscribe: SubscribeOption = None,
    servers: ServersOption = None,
    time: TimeOption = None,
    source: SourceOption = None,
    rate: RateOption = None,
    schema: SchemaFileOption = None,
    tolerance: TolerancesOption = None,
    levels: LevelsOption = "0,0.1,0.5,1",
    linger: LingersOption = "0.005,0.1",
    packing: PackingOption = "none,dictionary",
    max_linger: MaxLingerOption = None,
    level: LevelOption = None,
    train: ShareOption = 0.5,
    chunk: ChunkOption = 200_000,
    report: ReportOption = None,
    plan: PlanOption = None,
    rejects: RejectsOption = None,
    work: WorkOption = None,
    master: MasterOption = "local[*]",
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
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
    from thinwire.analysis import AnalysisRequest, Goal, render_page
    from thinwire.topics.topic_plan import write_plan

    output = Output(json)
    _check(paths, subscribe, master, work)
    lingers = _numbers(linger, "linger")
    request = AnalysisRequest(
        topic or subscribe or _topic_name(paths or []),
        strategies=_strategies(read_tolerances(tolerance), _numbers(levels, "levels"), lingers, _packings(packing)),
        goal=Goal(_level_name(level), max(lingers) if max_linger is None else max_linger),
        share=train,
        dimensions=read_names(source),
        time=time,
        rate=rate,
        schema=read_schema(schema),
        chunk=chunk,
    )
    with progress_bar(f"analysing {request.topic}") as progress:
        options: dict[str, Any] = {"work": work, "rejects": rejects, "progress": progress}
        found = _run(master, paths or [], subscribe, BrokerAccess(servers or "", credentials), request, options)
    command = shlex.join(["thinwire", *sys.argv[1:]]) if len(sys.argv) > 1 else ""
    found = replace(found, command=command, version=installed_version())
    if report is not None:
        write_atomically(report, render_page(found))
    if plan is not None:
        write_atomically(plan, write_plan(found.to_plan()))
    show(output, found, {"report": report, "plan": plan, "rejects": rejects})
    if not found.is_guarantee_met:
        raise typer.Exit(1)


def _run(
    master: str,
    paths: list[str],
    subscribe: str | None,
    access: BrokerAccess,
    request: AnalysisRequest,
    options: dict[str, Any],
) -> AnalysisReport:
    from thinwire.spark.jobs import analyze as job
    from thinwire.spark.session import session

    spark = session(master, app="thinwire analyze")
    try:
        if subscribe is None:
            return job.analyze(spark, paths, request, **options)
        return job.analyze_topic(spark, access.url, subscribe, request, **options, **access.options())
    finally:
        spark.stop()


def _check(paths: list[str] | None, subscribe: str | None, master: str, work: Path | None) -> None:
    if bool(paths) == (subscribe is not None):
        raise ConfigError("give files to analyse, or a topic with --subscribe", paths=paths or [])
    for path in paths or ():
        if "://" not in path and not Path(path).exists():
            raise ConfigError("no such file", path=path)
    if not master.startswith("local") and work is None:
        raise ConfigError("on a cluster give a folder shared by driver and executors: --work", master=master)


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
    requested = {part.strip() for part in text.split(",") if part.strip()}
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
        found = list(dict.fromkeys(float(part) for part in text.split(",") if part.strip()))
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
