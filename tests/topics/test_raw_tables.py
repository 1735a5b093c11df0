"""Messages and frames of a log as rows."""

from __future__ import annotations

import pytest
from log_table_setup import TOPIC, LogWriter, MemorySource, readings, rooms

from thinwire.errors import DataLoss
from thinwire.topics.log_tables.offset_range import Range
from thinwire.topics.log_tables.raw_tables import read_frames, read_messages
from thinwire.topics.names import data_subject, log_of
from thinwire.wire import join, split

LOG = log_of(TOPIC)


def written() -> MemorySource:
    source = MemorySource(block=50)
    source.register(rooms())
    out = [LogWriter(source, name, rooms()) for name in ("p1", "p2")]
    for n, event in enumerate(readings(300)):
        out[n % 2].publish(event, float(n))
        if n % 90 == 89:
            out[n % 2].key_round(float(n))
    for writing in out:
        writing.flush()
    return source


def rows_of(source: MemorySource, *, fail: bool = True) -> list[dict[str, object]]:
    wanted = Range(1, source.span(LOG).last)
    return [row for batch in read_frames(source, TOPIC, wanted, fail_on_data_loss=fail) for row in batch.to_pylist()]


def test_every_frame_is_a_row_with_its_index() -> None:
    source = written()
    stored = source.messages[LOG]
    frames = [(one.offset, index, f) for one in stored for index, f in enumerate(split(one.payload))]
    rows = rows_of(source)
    assert [(row["_offset"], row["_frame"], row["payload"]) for row in rows] == frames
    publishers = {one.offset: one.subject.split(".")[-2] for one in stored}
    assert all(row["_publisher"] == publishers[row["_offset"]] for row in rows)
    assert {"data", "key", "introduction"} <= {row["_kind"] for row in rows}


def test_messages_are_returned_complete() -> None:
    source = written()
    batches = read_messages(source, TOPIC, Range(3, 40))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["_offset"], row["payload"]) for row in rows] == [
        (s.offset, s.payload) for s in source.messages[LOG][2:40]
    ]
    assert [row["_kind"] for row in rows] == [
        "key" if s.subject.endswith(".k") else "data" for s in source.messages[LOG][2:40]
    ]


def test_long_frames_and_unknown_kinds_are_rows() -> None:
    source = MemorySource()
    long, short, text = b"\x01" + bytes(20_000), b"\x01\x00\x00x", b'{"t": 1}\n{"t": 2}'
    for payload in (join([long, short]), text):
        source.append(data_subject(TOPIC, "p1"), payload)
    rows = rows_of(source)
    assert [row["payload"] for row in rows] == [long, short, text]
    assert [row["_kind"] for row in rows] == ["data", "data", "unknown"]


def test_a_message_that_cannot_be_split_is_a_loss() -> None:
    source = MemorySource()
    for payload in (b"\x01\x00\x00a", b"\x09\x7f\x01", b"\x01\x01\x00b"):
        source.append(data_subject(TOPIC, "p1"), payload)
    with pytest.raises(DataLoss, match="offset=2"):
        rows_of(source)
    assert [row["_offset"] for row in rows_of(source, fail=False)] == [1, 3]
