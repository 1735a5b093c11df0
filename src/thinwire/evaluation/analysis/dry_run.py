"""A whole analysis in one process, for what fits into memory; Spark runs the same parts side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from thinwire.errors import ConfigError
from thinwire.evaluation.analysis.baseline import weigh
from thinwire.evaluation.analysis.choosing import Goal, choose, judge
from thinwire.evaluation.analysis.evaluating import evaluate_together
from thinwire.evaluation.analysis.learning import Learned, learn
from thinwire.evaluation.analysis.outcome import Outcome
from thinwire.evaluation.analysis.properties import sample_size, study
from thinwire.evaluation.analysis.reading import Read, Rejects
from thinwire.evaluation.analysis.report import TopicReport
from thinwire.evaluation.analysis.rows import batch_of
from thinwire.evaluation.analysis.strategy import Strategy, grid, same_frames
from thinwire.evaluation.analysis.times import EventClock, split
from thinwire.events import Schema, infer

BATCH = 10_000
_HEAD = 1_000
"""events that show which property tells the time"""


def analyse(
    reads: Sequence[Read],
    topic: str,
    *,
    file: str = "",
    rejects: Rejects | None = None,
    strategies: Sequence[Strategy] | None = None,
    goal: Goal | None = None,
    share: float = 0.5,
    dimensions: Sequence[str] | None = None,
    time: str | None = None,
    rate: float | None = None,
    schema: Schema | None = None,
    progress: Callable[[float], None] = lambda done: None,
) -> TopicReport:
    """The report of one topic's events, in the order in which they came."""
    rejects = rejects if rejects is not None else Rejects()
    tried = list(strategies) if strategies is not None else grid()
    first, second = _parts(reads, topic, share, dimensions, time, rate, schema)
    learned = learn(first, topic, dimensions=dimensions, time=time, schema=schema)
    held_out = list(_batches(second, learned.schema, file, rejects))
    outcomes = _outcomes(held_out, learned, tried, rate, progress)
    lingers = sorted({one.linger for one in tried})
    baselines = weigh(held_out, learned.schema, lingers, rate=rate)
    judged = judge(outcomes, baselines, learned.ranges)
    levels = list(dict.fromkeys(one.level for one in tried))
    return TopicReport(
        topic,
        learned,
        judged,
        choose(judged, goal),
        baselines,
        study(_sample(held_out, learned.schema), learned.schema, levels, learned.ranges),
        rejects.count,
        tuple(rejects.sample),
    )


def _outcomes(
    batches: Sequence[pa.RecordBatch],
    learned: Learned,
    strategies: Sequence[Strategy],
    rate: float | None,
    progress: Callable[[float], None],
) -> list[Outcome]:
    groups = same_frames(strategies)
    found: dict[Strategy, Outcome] = {}
    for done, group in enumerate(groups):
        for one in evaluate_together(batches, learned.schema, group, learned.ranges, rate=rate):
            found[one.strategy] = one
        progress((done + 1) / len(groups))
    return [found[one] for one in strategies]


def _parts(
    reads: Sequence[Read],
    topic: str,
    share: float,
    dimensions: Sequence[str] | None,
    time: str | None,
    rate: float | None,
    schema: Schema | None,
) -> tuple[list[dict[str, Any]], list[Read]]:
    """Events for learning, and those held out; the first few say which property is the time."""
    if len(reads) < 2:
        raise ConfigError("an analysis needs events: some to learn from and some to hold out", events=len(reads))
    head = [read.event for read in reads[: min(_HEAD, max(1, int(share * len(reads))))]]
    known = schema or infer(head, topic, dimensions=dimensions, time=time)
    clock = EventClock(known, rate)
    stamp = known.time
    alone = known.select([stamp.name]) if stamp is not None else known
    times = clock.read(_stamps(reads, alone)) if stamp is not None and not rate else clock.read(_blank(len(reads)))
    cut = split(times, share)
    first = [read.event for read, when in zip(reads, times.tolist(), strict=True) if when < cut]
    return first, [read for read, when in zip(reads, times.tolist(), strict=True) if when >= cut]


def _stamps(reads: Sequence[Read], alone: Schema) -> pa.RecordBatch:
    (stamp,) = alone.properties
    return batch_of([{stamp.name: _at(read.event, stamp.name)} for read in reads], alone).batch


def _at(event: Mapping[str, Any], path: str) -> Any:
    value: Any = event
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _blank(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"": pa.nulls(count)})


def _batches(reads: Sequence[Read], schema: Schema, file: str, rejects: Rejects) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(reads), BATCH):
        some = reads[at : at + BATCH]
        made = batch_of([read.event for read in some], schema)
        for place, reason in made.unfit:
            rejects.add(file, some[place].line, str(some[place].event), reason)
        yield made.batch


def _sample(batches: Sequence[pa.RecordBatch], schema: Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).slice(0, sample_size(schema)).combine_chunks()
    return table.to_batches()[0]
