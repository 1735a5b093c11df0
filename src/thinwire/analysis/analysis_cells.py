"""The pieces of an analysis that run side by side, in any order, wherever the workplace can be reached.

First the held-out part is cut into chunks and the ranges of the training part are found; then every group of
strategies that make the same frames is run on every chunk. What a cell answers is plain JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from thinwire.analysis.event_columns import batch_of
from thinwire.analysis.event_files import Rejects, kept
from thinwire.analysis.event_times import EventClock
from thinwire.analysis.json_baseline import weigh
from thinwire.analysis.packed_frames import LEARNT, learn
from thinwire.analysis.property_cost import merge_ranges, ranges_of, sample_size, study
from thinwire.analysis.strategies import Strategy, same_frames
from thinwire.analysis.strategy_choice import outcome_out
from thinwire.analysis.strategy_evaluation import evaluate_together
from thinwire.analysis.work_folder import Task, Workplace, tail
from thinwire.dictionaries import Dictionary

Cell = dict[str, Any]
Run = Callable[[Callable[..., Mapping[str, Any]], Sequence[Cell], Callable[[Cell], float]], list[Mapping[str, Any]]]
"""runs a function on cells, given what each one weighs"""

JSON_FRAMES, JSON_BASELINE = 12.0, 3.0
"""what these weigh beside frames in the compact format"""


def preparing(work: Path, task: Task, cut: int, piece: int) -> list[Cell]:
    """The cells that make chunks and ranges."""
    ranges = [
        {"work": str(work), "what": "ranges", "first": first, "last": min(cut, first + piece)}
        for first in range(0, cut, piece)
    ]
    chunks = [
        {"work": str(work), "what": "chunk", "number": chunk.number, "first": chunk.first, "last": chunk.last}
        for chunk in task.chunks
    ]
    return chunks + ranges


def measuring(work: Path, task: Task) -> list[Cell]:
    """The cells that measure: groups of strategies and JSON on every chunk, and what properties cost on one."""
    cells: list[Cell] = [{"work": str(work), "what": "properties", "number": task.chunks[0].number, "rows": 1}]
    for chunk in task.chunks:
        about = {"work": str(work), "number": chunk.number, "rows": chunk.rows}
        cells += ({**about, "what": "strategies", "group": g} for g, _ in enumerate(same_frames(task.strategies)))
        cells.append({**about, "what": "json"})
    return cells


def weight(task: Task) -> Callable[[Cell], float]:
    """How much work a cell is."""
    forms = [group[0].format for group in same_frames(task.strategies)]

    def of(cell: Cell) -> float:
        rows = float(cell["rows"]) if "rows" in cell else float(cell["last"] - cell["first"])
        if cell["what"] == "strategies":
            return rows * (JSON_FRAMES if forms[cell["group"]] == "json" else 1.0)
        return rows * JSON_BASELINE if cell["what"] == "json" else rows

    return of


def run_cell(work: str, what: str, **where: Any) -> dict[str, Any]:
    """Run one."""
    place = Workplace(Path(work))
    where.pop("rows", None)
    return _WHATS[what](place, place.load(), **where)


def _ranges(place: Workplace, task: Task, first: int, last: int) -> dict[str, Any]:
    parts = (batch_of([row.event for row in rows], task.schema).batch for rows in place.events.events(first, last))
    return {"ranges": merge_ranges(ranges_of([part], task.schema) for part in parts)}


def _chunk(place: Workplace, task: Task, number: int, first: int, last: int) -> dict[str, Any]:
    """Make a chunk; rows that do not fit the schema are counted and shown."""
    rejects, tails, begin, rows = Rejects(), list[pa.RecordBatch](), None, 0
    batches = []
    for some in place.events.events(first, last):
        made = batch_of([row.event for row in some], task.schema)
        for at, reason in made.unfit:
            rejects.add(some[at].file, some[at].line, kept(some[at].event), reason)
        batches.append(made.batch)
        tails = [tail([*tails, made.batch], task.schema, task.warm)]
        begin = some[0].seconds if begin is None else begin
        rows += made.batch.num_rows
    place.write(f"chunk-{number}", task.schema, batches)
    place.write(f"tail-{number}", task.schema, tails)
    return {"rows": rows, "begin": begin, "rejected": rejects.count, "rejects": [list(one) for one in rejects.sample]}


def _strategies(place: Workplace, task: Task, number: int, group: int) -> dict[str, Any]:
    some = same_frames(task.strategies)[group]
    warm = list(place.read(f"warm-{number}"))
    earlier = sum(chunk.rows for chunk in task.chunks if chunk.number < number)
    found = evaluate_together(
        place.read(f"chunk-{number}"),
        task.schema,
        some,
        task.ranges,
        warm=warm,
        begin=task.begin,
        rate=task.rate,
        before=earlier - sum(batch.num_rows for batch in warm),
        timed=number == task.chunks[0].number,
        dictionary=_dictionary(place, task, some) if any(one.packing == "dictionary" for one in some) else None,
    )
    return {"outcomes": [outcome_out(one) for one in found]}


def _dictionary(place: Workplace, task: Task, some: Sequence[Strategy]) -> Dictionary | None:
    """The dictionary of the training part's last events. Every chunk learns it anew: that takes less than a chunk by
    far, and a stage of its own would keep all of them waiting."""
    cut = task.chunks[0].first
    first = max(0, cut - LEARNT)
    parts = (batch_of([row.event for row in rows], task.schema).batch for rows in place.events.events(first, cut))
    clock = EventClock(task.schema, task.rate, first)
    return learn(parts, task.schema, some[0].link_config(task.schema, task.ranges), clock)


def _json(place: Workplace, task: Task, number: int) -> dict[str, Any]:
    lingers = sorted({one.linger for one in task.strategies})
    earlier = sum(chunk.rows for chunk in task.chunks if chunk.number < number)
    clock = EventClock(task.schema, task.rate, earlier)
    found = weigh(place.read(f"chunk-{number}"), task.schema, lingers, clock=clock)
    return {"baselines": [asdict(one) for one in found]}


def _properties(place: Workplace, task: Task, number: int) -> dict[str, Any]:
    table = pa.Table.from_batches(list(place.read(f"chunk-{number}"))).slice(0, sample_size(task.schema))
    levels = list(dict.fromkeys(one.level for one in task.strategies))
    [batch] = table.combine_chunks().to_batches()
    return {"costs": [asdict(one) for one in study(batch, task.schema, levels, task.ranges)]}


_WHATS: dict[str, Callable[..., dict[str, Any]]] = {
    "ranges": _ranges,
    "chunk": _chunk,
    "strategies": _strategies,
    "json": _json,
    "properties": _properties,
}
