"""The analysis of recorded events, in this process or as tasks of Spark.

The events are sorted into a work folder and split in time: schema and ranges come from the training part, all
measurements from the held-out part, which is divided into chunks. The work is divided into cells: a cell has the
arguments of one call of `_run_cell`, and its result is a JSON object. Cells do not depend on each other, so a
`CellRunner` may run them in any order and in other processes. The cells of the first step convert the chunks to columns
and find the ranges; those of the second step evaluate each group of strategies on each chunk.

>>> from tempfile import TemporaryDirectory
>>> from thinwire.analysis.work_folder import write_sorted
>>> events = [
...     RecordedEvent(float(n), "rooms.jsonl", n, {"time": n, "room": "a", "t": 20 + n % 7 / 10}) for n in range(1, 401)
... ]
>>> with TemporaryDirectory() as folder:
...     work = WorkFolder(Path(folder))
...     write_sorted(work.sorted_folder, events)
...     report = analyze_sorted(work, AnalysisRequest("rooms", time="time", chunk=100))
>>> report.chosen.outcome.events, report.chosen.outcome.is_guarantee_met, report.training.events
(200, True, 200)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from thinwire.analysis.event_columns import EventClock, to_batch
from thinwire.analysis.event_files import (
    HEAD_EVENTS,
    RecordedEvent,
    Reject,
    Rejects,
    TimeReader,
    read_events,
    serialize_event,
)
from thinwire.analysis.json_baseline import Baseline, measure_json, merge_baselines
from thinwire.analysis.property_cost import (
    MAX_SCHEMA_EVENTS,
    PropertyCost,
    TrainingSummary,
    find_ranges,
    measure_property_costs,
    merge_ranges,
    sample_size,
)
from thinwire.analysis.publisher_run import TRAINING_EVENTS, train_dictionary
from thinwire.analysis.report import AnalysisReport
from thinwire.analysis.strategies import (
    AnalysisOutcome,
    ByteCounts,
    Ranges,
    Strategy,
    grid,
    group_by_frames,
    merge_outcomes,
)
from thinwire.analysis.strategy_choice import Goal, choose_strategy, rate_outcomes
from thinwire.analysis.strategy_evaluation import evaluate
from thinwire.analysis.work_folder import BATCH_ROWS, WorkFolder, last_rows, open_work_folder, write_sorted
from thinwire.dictionaries import Dictionary
from thinwire.errors import ConfigError
from thinwire.ledger import Row, from_document, to_document
from thinwire.schema import Schema, infer

CHUNK = 200_000
"""events of a chunk"""
WARM_UP_EVENTS = 20
"""events of each source that a publisher encodes before a chunk, so that it does not start without a state"""
JSON_FRAMES_WEIGHT, JSON_BASELINE_WEIGHT = 12.0, 3.0
"""cost of a cell relative to one that evaluates strategies with compact frames"""

Cell = dict[str, Any]
"""keyword arguments of one call, JSON values"""
Results = list[Mapping[str, Any]]
CellRunner = Callable[[Callable[..., Mapping[str, Any]], Sequence[Cell], Callable[[Cell], float]], Results]
"""calls a function with every cell; the last argument is the relative cost of a cell"""


def run_sequentially(
    function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
) -> Results:
    """Run cells in this process, one after the other."""
    return [function(**cell) for cell in cells]


@dataclass(frozen=True)
class AnalysisRequest:
    """The options of an analysis.

    topic: name of the topic in the report and the plan
    strategies: the strategies to evaluate; goal: requirements that the strategy of the plan meets
    share: share of the events that form the training part; chunk: number of events of a chunk
    rate: events per second, for events without a time
    schema: schema of the events; by default inferred, with `dimensions` and `time` if they are given
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
            raise ConfigError("a chunk must have at least one event", chunk=self.chunk)
        if not self.strategies:
            raise ConfigError("an analysis needs at least one strategy", strategies=0)


def analyze_files(paths: Sequence[Path], request: AnalysisRequest) -> AnalysisReport:
    """Analyse files in this process. All events are in memory while they are sorted."""
    rejects = Rejects()
    events = [event for path in paths for event in read_events(path, rejects)]
    with open_work_folder() as folder:
        reader = create_time_reader([event.event for event in events[:HEAD_EVENTS]], request)
        if reader is not None:
            events = _add_times(events, reader, rejects)
            request = replace(request, time=reader.name)
        write_sorted(folder.sorted_folder, events)
        return analyze_sorted(folder, request, rejects=rejects)


def create_time_reader(head: Sequence[Mapping[str, Any]], request: AnalysisRequest) -> TimeReader | None:
    """Return the reader of event times, or None if the request has a rate.

    head: the first events, from which the schema of the times is inferred if the request has none
    """
    if request.rate:
        return None
    if request.schema is not None:
        return TimeReader(request.schema)
    if not head:
        raise ConfigError("an analysis needs events: there are none that can be read", topic=request.topic)
    return TimeReader(infer(head, request.topic, dimensions=request.dimensions, time=request.time))


def _add_times(events: Sequence[RecordedEvent], reader: TimeReader, rejects: Rejects) -> list[RecordedEvent]:
    with_time = []
    for start in range(0, len(events), BATCH_ROWS):
        batch = events[start : start + BATCH_ROWS]
        for event, seconds in zip(batch, reader.seconds([event.event for event in batch]), strict=True):
            if seconds is None:
                rejects.add(event.file, event.line, serialize_event(event.event), reader.reason)
            else:
                with_time.append(event._replace(seconds=seconds))
    return with_time


@dataclass(frozen=True)
class AnalysisTask:
    """The data that every cell needs.

    held_out: index of the first held-out event; begin: its time, None if events have no time
    rows: number of events that fit the schema, by chunk; chunks without such events are left out
    """

    folder: WorkFolder
    schema: Schema
    strategies: Sequence[Strategy]
    held_out: int
    rate: float | None = None
    begin: float | None = None
    rows: Mapping[int, int] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)

    def clock(self, chunk: int, warm_up_rows: int = 0) -> EventClock:
        """Return a clock for the events of a chunk, preceded by its warm-up rows."""
        earlier = sum(rows for number, rows in self.rows.items() if number < chunk)
        return EventClock(self.schema, self.rate, earlier - warm_up_rows)


def analyze_sorted(
    folder: WorkFolder, request: AnalysisRequest, run: CellRunner = run_sequentially, rejects: Rejects | None = None
) -> AnalysisReport:
    """Analyse the sorted events of a work folder. Events that do not fit the schema are added to `rejects`."""
    rejects = rejects if rejects is not None else Rejects()
    events = folder.events
    if len(events) < 2:
        raise ConfigError("an analysis needs events: some for training and some held out", events=len(events))
    held_out = events.find_first_held_out(request.share, has_times=not request.rate)
    schema = request.schema
    if schema is None:
        sample = events.sample(0, held_out, MAX_SCHEMA_EVENTS)
        schema = infer(sample, request.topic, dimensions=request.dimensions, time=request.time, limit=MAX_SCHEMA_EVENTS)
    task = AnalysisTask(folder, schema, request.strategies, held_out, request.rate)
    task = _prepare(task, len(events), request.chunk, run, rejects)
    training = TrainingSummary(schema, task.ranges, held_out)
    return _create_report(request, training, _run_cells(task, _measuring_cells(task), run), rejects)


def _prepare(task: AnalysisTask, end: int, size: int, run: CellRunner, rejects: Rejects) -> AnalysisTask:
    """Write the events up to `end` as columns, in chunks of `size`, and find the ranges of the training part."""
    cells = [
        {"kind": "convert", "weight": last - first, "number": number, "first": first, "end": last}
        for number, (first, last) in enumerate(_spans(task.held_out, end, size))
    ]
    chunks = len(cells)
    cells += [
        {"kind": "ranges", "weight": last - first, "first": first, "end": last}
        for first, last in _spans(0, task.held_out, size)
    ]
    results = _run_cells(task, cells, run)
    converted, ranges = results[:chunks], results[chunks:]
    for result in converted:
        rejects.extend(result["rejected"], [Reject(*fields) for fields in result["rejects"]])
    rows = {number: result["rows"] for number, result in enumerate(converted) if result["rows"]}
    if not rows:
        reason = rejects.examples[-1].reason if rejects.examples else ""
        detail = f"no event of the held-out part fits the schema of the training part: {reason}"
        raise ConfigError(detail, rejected=rejects.count)
    task.folder.write_warm_up_rows(task.schema, range(chunks), WARM_UP_EVENTS)
    found = merge_ranges(result["ranges"] for result in ranges)
    return replace(task, rows=rows, begin=converted[0]["begin"], ranges=found)


def _spans(first: int, end: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(end, start + size)) for start in range(first, end, size)]


def _measuring_cells(task: AnalysisTask) -> list[Cell]:
    """Return the cells that measure: strategies and JSON on every chunk, and property costs on the first chunk."""
    weights = [JSON_FRAMES_WEIGHT if g[0].format == "json" else 1.0 for g in group_by_frames(task.strategies)]
    cells: list[Cell] = [{"kind": "properties", "weight": 1.0}]
    for number, rows in task.rows.items():
        cells += (
            {"kind": "strategies", "weight": rows * weight, "number": number, "group": group}
            for group, weight in enumerate(weights)
        )
        cells.append({"kind": "json", "weight": rows * JSON_BASELINE_WEIGHT, "number": number})
    return cells


def _create_report(
    request: AnalysisRequest, training: TrainingSummary, results: Results, rejects: Rejects
) -> AnalysisReport:
    outcomes = merge_outcomes(
        _decode_outcome(document, request.strategies) for result in results for document in result.get("outcomes", ())
    )
    outcomes.sort(key=lambda outcome: request.strategies.index(outcome.strategy))
    baselines = merge_baselines(Baseline(**fields) for result in results for fields in result.get("baselines", ()))
    rated = rate_outcomes(outcomes, baselines, training.ranges)
    return AnalysisReport(
        request.topic,
        training,
        rated,
        choose_strategy(rated, request.goal),
        baselines,
        [PropertyCost(**fields) for result in results for fields in result.get("costs", ())],
        rejects.count,
        tuple(rejects.examples),
        request.share,
    )


def _run_cells(task: AnalysisTask, cells: Sequence[Cell], run: CellRunner) -> Results:
    return run(partial(_run_cell, task), cells, lambda cell: float(cell["weight"]))


def _run_cell(task: AnalysisTask, kind: str, weight: float, **arguments: Any) -> dict[str, Any]:
    return _CELLS[kind](task, **arguments)


def _read_batches(task: AnalysisTask, first: int, end: int) -> Iterable[pa.RecordBatch]:
    for rows in task.folder.events.events(first, end):
        yield to_batch([row.event for row in rows], task.schema).batch


def _find_ranges(task: AnalysisTask, first: int, end: int) -> dict[str, Any]:
    return {"ranges": find_ranges(_read_batches(task, first, end), task.schema)}


def _convert_chunk(task: AnalysisTask, number: int, first: int, end: int) -> dict[str, Any]:
    """Write the columns and the last rows of a chunk. Events that do not fit the schema are rejected."""
    rejects, batches, begin = Rejects(), list[pa.RecordBatch](), None
    for events in task.folder.events.events(first, end):
        converted = to_batch([event.event for event in events], task.schema)
        for index, reason in converted.rejected:
            event = events[index]
            rejects.add(event.file, event.line, serialize_event(event.event), reason)
        batches.append(converted.batch)
        begin = events[0].seconds if begin is None else begin
    task.folder.write(f"chunk-{number}", task.schema, batches)
    task.folder.write(f"tail-{number}", task.schema, [last_rows(batches, task.schema, WARM_UP_EVENTS)])
    rows = sum(batch.num_rows for batch in batches)
    return {"rows": rows, "begin": begin, "rejected": rejects.count, "rejects": [list(r) for r in rejects.examples]}


def _evaluate_group(task: AnalysisTask, number: int, group: int) -> dict[str, Any]:
    strategies = group_by_frames(task.strategies)[group]
    warm_up = task.folder.read(f"warm-{number}")
    outcomes = evaluate(
        task.folder.read(f"chunk-{number}"),
        task.schema,
        strategies,
        task.ranges,
        warm_up=warm_up,
        stream_begin=task.begin,
        clock=task.clock(number, sum(batch.num_rows for batch in warm_up)),
        with_cpu=number == min(task.rows),
        dictionary=_train_dictionary(task, strategies),
    )
    return {"outcomes": [_encode_outcome(outcome, task.strategies) for outcome in outcomes]}


def _train_dictionary(task: AnalysisTask, strategies: Sequence[Strategy]) -> Dictionary | None:
    """Return the dictionary of a group of strategies, trained on the end of the training part; None if none uses it.

    The cell of every chunk trains the same dictionary again: that takes less time than evaluating the chunk, while a
    separate cell for the training would delay the cells of all chunks.
    """
    if all(strategy.packing != "dictionary" for strategy in strategies):
        return None
    first = max(0, task.held_out - TRAINING_EVENTS)
    config = strategies[0].stream_config(task.schema, task.ranges)
    clock = EventClock(task.schema, task.rate, first)
    return train_dictionary(_read_batches(task, first, task.held_out), task.schema, config, clock)


def _measure_json(task: AnalysisTask, number: int) -> dict[str, Any]:
    lingers = sorted({strategy.linger for strategy in task.strategies})
    baselines = measure_json(task.folder.read(f"chunk-{number}"), task.schema, lingers, task.clock(number))
    return {"baselines": [asdict(baseline) for baseline in baselines]}


def _measure_properties(task: AnalysisTask) -> dict[str, Any]:
    table = pa.Table.from_batches(task.folder.read(f"chunk-{min(task.rows)}")).slice(0, sample_size(task.schema))
    levels = list(dict.fromkeys(strategy.level for strategy in task.strategies))
    [sample] = table.combine_chunks().to_batches()
    return {"costs": [asdict(cost) for cost in measure_property_costs(sample, task.schema, levels, task.ranges)]}


_CELLS: dict[str, Callable[..., dict[str, Any]]] = {
    "ranges": _find_ranges,
    "convert": _convert_chunk,
    "strategies": _evaluate_group,
    "json": _measure_json,
    "properties": _measure_properties,
}
"""functions by the kind of the cell; each returns a part of the results"""

_BYTE_COUNTS = ("start", "running", "end")
"""fields of an outcome that are `ByteCounts`"""


def _encode_outcome(outcome: AnalysisOutcome, strategies: Sequence[Strategy]) -> dict[str, Any]:
    """Return an outcome as JSON values, with the index of its strategy."""
    return {
        **vars(outcome),
        "strategy": strategies.index(outcome.strategy),
        **{name: asdict(getattr(outcome, name)) for name in _BYTE_COUNTS},
        "errors": to_document(Row("analyze", outcome.topic, errors=dict(outcome.errors))),
    }


def _decode_outcome(document: Mapping[str, Any], strategies: Sequence[Strategy]) -> AnalysisOutcome:
    sizes = {name: ByteCounts(**document[name]) for name in _BYTE_COUNTS}
    errors = from_document(document["errors"]).errors
    return AnalysisOutcome(**{**document, **sizes, "strategy": strategies[document["strategy"]], "errors": errors})
