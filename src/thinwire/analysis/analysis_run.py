"""The same analysis as on Spark, in this process alone: for what fits into memory once, as events.

A whole analysis of events that lie sorted in a workplace: memory for one chunk, cells run by whoever can.

>>> from tempfile import TemporaryDirectory
>>> from thinwire.analysis.work_folder import Stood, write_sorted
>>> rows = [Stood(float(n), "rooms.jsonl", n, {"time": n, "room": "a", "t": 20 + n % 7 / 10}) for n in range(1, 401)]
>>> with TemporaryDirectory() as folder:
...     write_sorted(Path(folder) / "sorted", rows)
...     report = staged(Path(folder), Wanted("rooms", time="time", chunk=100), one_by_one)
>>> report.chosen.outcome.events, report.chosen.outcome.kept, report.learned.events
(200, True, 200)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from thinwire.analysis.analysis_cells import Cell, Run, measuring, preparing, run_cell, weight
from thinwire.analysis.event_files import SAMPLED, Reject, Rejects, kept, read_events
from thinwire.analysis.event_times import HEAD, Stamper
from thinwire.analysis.json_baseline import merge_baselines
from thinwire.analysis.property_cost import LIMIT, Learned, merge_ranges
from thinwire.analysis.report import TopicReport
from thinwire.analysis.strategies import Strategy, grid, merge
from thinwire.analysis.strategy_choice import Goal, baseline_in, choose, cost_in, judge, outcome_in
from thinwire.analysis.work_folder import BATCH, Chunk, SortedEvents, Stood, Task, Workplace, write_sorted
from thinwire.errors import ConfigError
from thinwire.schema import Schema
from thinwire.schema.inference import explain

CHUNK = 200_000
"""events of a chunk"""
WARM = 20
"""events of each source that a publisher is warmed up with before a chunk"""

Results = list[Mapping[str, Any]]


@dataclass(frozen=True)
class Wanted:
    """What is to be analysed.

    topic: the name of the stream; strategies: those to try; goal: what a plan is chosen by
    share: of the training part; chunk: events of a chunk; rate: events a second, where they do not tell their time
    schema: of the events, with dimensions and time what is inferred where there is none
    """

    topic: str
    strategies: Sequence[Strategy] = field(default_factory=grid)
    goal: Goal = field(default_factory=Goal)
    share: float = 0.5
    dimensions: Sequence[str] | None = None
    time: str | None = None
    rate: float | None = None
    schema: Schema | None = None
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise ConfigError("a chunk has at least one event", chunk=self.chunk)
        if not self.strategies:
            raise ConfigError("an analysis needs strategies to try", strategies=0)


def staged(work: Path, wanted: Wanted, run: Run, rejects: Rejects | None = None) -> TopicReport:
    """The report of the events sorted in a workplace; `rejects`: lines that were no events, to which more are added."""
    rejects = rejects if rejects is not None else Rejects()
    place = Workplace(work)
    events = place.events
    if len(events) < 2:
        raise ConfigError("an analysis needs events: some to learn from and some to hold out", events=len(events))
    cut = events.cut(wanted.share, timed=not wanted.rate)
    schema, reasons = _schema(events, cut, wanted)
    task = _task(schema, wanted, cut, len(events))
    place.save(task)
    task = _prepared(place, task, cut, run, rejects)
    learned = Learned(schema, task.ranges, cut, reasons)
    return _report(wanted, learned, run(run_cell, measuring(work, task), weight(task)), rejects)


def one_by_one(
    function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
) -> Results:
    """Runs cells here, one after the other."""
    return [function(**cell) for cell in cells]


def _schema(events: SortedEvents, cut: int, wanted: Wanted) -> tuple[Schema, Mapping[str, str]]:
    if wanted.schema is not None:
        return wanted.schema, {}
    sample = events.sample(0, cut, LIMIT)
    found = explain(sample, wanted.topic, dimensions=wanted.dimensions, time=wanted.time, limit=LIMIT)
    return found.schema, found.reasons


def _task(schema: Schema, wanted: Wanted, cut: int, total: int) -> Task:
    starts = range(cut, total, wanted.chunk)
    chunks = [Chunk(number, first, min(total, first + wanted.chunk)) for number, first in enumerate(starts)]
    return Task(schema, wanted.strategies, chunks, wanted.rate, WARM)


def _prepared(place: Workplace, task: Task, cut: int, run: Run, rejects: Rejects) -> Task:
    """Have the chunks made and the ranges found."""
    piece = max(chunk.last - chunk.first for chunk in task.chunks)
    cells = preparing(place.path, task, cut, piece)
    results = run(run_cell, cells, weight(task))
    made, ranges = results[: len(task.chunks)], results[len(task.chunks) :]
    for one in made:
        room = SAMPLED - len(rejects.sample)
        rejects.count += one["rejected"]
        rejects.sample += [Reject(*told) for told in one["rejects"][:room]]
    counted = [replace(chunk, rows=one["rows"]) for chunk, one in zip(task.chunks, made, strict=True)]
    chunks = [chunk for chunk in counted if chunk.rows]
    if not chunks:
        why = rejects.sample[-1].reason if rejects.sample else ""
        raise ConfigError(
            f"no event of the held-out part fits the schema of the first part: {why}", rejected=rejects.count
        )
    place.warm_up(task)
    prepared = replace(task, chunks=chunks, begin=made[0]["begin"], ranges=merge_ranges(r["ranges"] for r in ranges))
    place.save(prepared)
    return prepared


def _report(wanted: Wanted, learned: Learned, results: Results, rejects: Rejects) -> TopicReport:
    found = merge(outcome_in(one) for result in results for one in result.get("outcomes", ()))
    order = {strategy: place for place, strategy in enumerate(wanted.strategies)}
    baselines = merge_baselines(baseline_in(one) for result in results for one in result.get("baselines", ()))
    judged = judge(sorted(found, key=lambda one: order[one.strategy]), baselines, learned.ranges)
    return TopicReport(
        wanted.topic,
        learned,
        judged,
        choose(judged, wanted.goal),
        baselines,
        [cost_in(one) for result in results for one in result.get("costs", ())],
        rejects.count,
        tuple(rejects.sample),
    )


def in_process(paths: Sequence[Path], wanted: Wanted, *, work: Path | None = None) -> TopicReport:
    """Read files, sort their events, and analyse them, one cell after the other."""
    rejects = Rejects()
    rows = [
        Stood(None, str(path.resolve()), read.line, read.event)
        for path in map(_there, paths)
        for read in read_events(path, rejects)
    ]
    with working(work) as folder:
        timed, found = stamped(rows, wanted, rejects)
        write_sorted(Workplace(folder).sorted_folder, timed)
        return staged(folder, found, one_by_one, rejects)


def stamped(rows: list[Stood], wanted: Wanted, rejects: Rejects) -> tuple[list[Stood], Wanted]:
    """Events with their times, and the property that tells it; those that tell none are rejects."""
    if wanted.rate:
        return rows, wanted
    stamper = stamper_for([row.event for row in rows[:HEAD]], wanted)
    found = []
    for at in range(0, len(rows), BATCH):
        some = rows[at : at + BATCH]
        for row, seconds in zip(some, stamper.seconds([row.event for row in some]), strict=True):
            if seconds is None:
                rejects.add(row.file, row.line, kept(row.event), stamper.complaint)
            else:
                found.append(row._replace(seconds=seconds))
    return found, replace(wanted, time=stamper.name)


def stamper_for(head: Sequence[dict[str, object]], wanted: Wanted) -> Stamper:
    """What reads the time of these events."""
    if wanted.schema is not None:
        return Stamper.of(wanted.schema)
    return Stamper.found(head, wanted.topic, time=wanted.time, dimensions=wanted.dimensions)


@contextmanager
def working(work: Path | None) -> Iterator[Path]:
    """A folder to work in; nothing of the work is left behind."""
    if work is None:
        with TemporaryDirectory(prefix="thinwire-analyze-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    if work.exists() and any(work.iterdir()):
        raise ConfigError("the folder to work in must be empty: name another one", work=str(work))
    work.mkdir(parents=True, exist_ok=True)
    try:
        yield work
    finally:
        rmtree(work, ignore_errors=True)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ConfigError("there is no such file", path=str(path))
    return path
