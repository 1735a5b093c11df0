"""What stands in the lines of files, as a task finds it: events with their times, or why a line is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from thinwire.analysis.event_files import Header, NoEvent, event_of, kept
from thinwire.analysis.event_times import Stamper

READ = "file string, block long, line long, event string, text string, reason string, seconds double"
"""the columns of what was read; where a line is no event, `text` is the beginning of it and `reason` says why"""

Told = tuple[dict[str, Any] | None, str | None, str | None]
"""An event, its text, nothing; or nothing, the text, why it is no event. Nothing at all of a line that is empty, or a
header: it is no fault, but it counts."""
Line = tuple[str, int, int, dict[str, Any] | None, str | None, str | None]
"""Where a line stands, and what it tells: the file, the block of it that a task reads, its number there from 1 on"""
Reader = Callable[[pa.RecordBatch], list[Line]]

_SHOWN = 200
_COLUMNS = pa.schema(
    [
        ("file", pa.string()),
        ("block", pa.int64()),
        ("line", pa.int64()),
        ("event", pa.string()),
        ("text", pa.string()),
        ("reason", pa.string()),
        ("seconds", pa.float64()),
    ]
)


class Place(NamedTuple):
    """Where a line stands: the file, the block of it that a task reads, and its number there from 1 on.

    >>> Place("rooms.jsonl", 0, 7).next("rooms.jsonl", 0).line, Place("rooms.jsonl", 0, 7).next("rooms.jsonl", 64).line
    (8, 1)
    """

    file: str
    block: int
    line: int

    def next(self, file: str, block: int) -> Place:
        """The place of the line that is read after this one, and stands there."""
        return Place(file, block, self.line + 1 if (file, block) == self[:2] else 1)


def read_by(rows: DataFrame, reader: Callable[[], Reader], stamper: Stamper | None) -> DataFrame:
    """Whatever a reader, of which every task has one of its own, makes of the rows; each is gone through once."""
    alone = stamper.alone if stamper is not None else None

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stamps, lines = Stamper(alone) if alone is not None else None, reader()
        for batch in batches:
            yield columns_of(lines(batch), stamps)

    return rows.mapInArrow(run, READ)


def columns_of(lines: list[Line], stamper: Stamper | None) -> pa.RecordBatch:
    """Lines as columns, with the time of every event; one that tells none is no event."""
    files, blocks, numbers, events, texts, reasons = map(list, zip(*lines, strict=True)) if lines else ([],) * 6
    seconds: list[float | None] = [None] * len(lines)
    if stamper is not None:
        there = [place for place, event in enumerate(events) if event is not None]
        for place, time in zip(there, stamper.seconds([events[place] for place in there]), strict=True):
            seconds[place] = time
            if time is None:
                events[place], texts[place], reasons[place] = None, texts[place][:_SHOWN], stamper.complaint
    good = [None if event is None else text for event, text in zip(events, texts, strict=True)]
    bad = [text if event is None else None for event, text in zip(events, texts, strict=True)]
    columns = zip((files, blocks, numbers, good, bad, reasons, seconds), _COLUMNS.types, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in columns], schema=_COLUMNS)


def lines_by(header: Header | None) -> Reader:
    """Reads text: rows with a line each, the file and the block; lines of a block come one after the other."""
    place, file = Place("", 0, 0), ""

    def lines(batch: pa.RecordBatch) -> list[Line]:
        nonlocal place, file
        found: list[Line] = []
        for text, path, block in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            place = place.next(path, block)
            if place.line == 1:
                file = bare(path)
            is_header = header is not None and place[1:] == (0, 1)
            told = _told(text, header) if text.strip() and not is_header else (None, None, None)
            found.append((file, block, place.line, *told))
        return found

    return lines


def bare(file: str) -> str:
    """A file's path as people write it.

    >>> bare("file:///data/rooms.jsonl"), bare("s3a://lake/rooms.jsonl")
    ('/data/rooms.jsonl', 's3a://lake/rooms.jsonl')
    """
    return "/" + file.removeprefix("file:").lstrip("/") if file.startswith("file:/") else file


def _told(text: str, header: Header | None) -> Told:
    try:
        event = event_of(text, header)
    except NoEvent as problem:
        return None, text[:_SHOWN], str(problem)
    return event, text if header is None else kept(event), None
