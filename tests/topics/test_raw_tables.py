"""Messages and frames of a log as they are: nothing is left out, nothing is made up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from landing_sites import TOPIC, MemorySource, Writing, readings, rooms

from thinwire.errors import DataLoss
from thinwire.topics.log_tables import Range, frames, messages
from thinwire.topics.log_tables.raw_tables import split_at_once
from thinwire.topics.names import data_subject, log_of
from thinwire.wire import join, split

LOG = log_of(TOPIC)

frame = st.builds(
    lambda kind, body: bytes([kind]) + body,
    st.sampled_from([1, 2, 4, 7, 15, 0xC1]),
    st.binary(min_size=2, max_size=300),
)


def written() -> MemorySource:
    source = MemorySource(block=50)
    source.register(rooms())
    out = [Writing(source, name, rooms()) for name in ("p1", "p2")]
    for n, event in enumerate(readings(300)):
        out[n % 2].publish(event, float(n))
        if n % 90 == 89:
            out[n % 2].key_round(float(n))
    for writing in out:
        writing.flush()
    return source


def rows_of(source: MemorySource, *, fail: bool = True) -> list[dict[str, object]]:
    wanted = Range(1, source.span(LOG).last)
    return [row for batch in frames(source, TOPIC, wanted, fail_on_data_loss=fail) for row in batch.to_pylist()]


def test_every_frame_is_a_row_in_its_place() -> None:
    source = written()
    stored = source.messages[LOG]
    told = [(one.offset, place, f) for one in stored for place, f in enumerate(split(one.payload))]
    rows = rows_of(source)
    assert [(row["_offset"], row["_frame"], row["payload"]) for row in rows] == told
    publishers = {one.offset: one.subject.split(".")[-2] for one in stored}
    assert all(row["_publisher"] == publishers[row["_offset"]] for row in rows)
    assert {"data", "key", "introduction"} <= {row["_kind"] for row in rows}


def test_messages_are_handed_out_whole() -> None:
    source = written()
    batches = messages(source, TOPIC, Range(3, 40))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["_offset"], row["payload"]) for row in rows] == [
        (s.offset, s.payload) for s in source.messages[LOG][2:40]
    ]
    assert [row["_kind"] for row in rows] == [
        "key" if s.subject.endswith(".k") else "data" for s in source.messages[LOG][2:40]
    ]


@given(st.lists(st.lists(frame, min_size=1, max_size=5), min_size=1, max_size=8))
def test_side_by_side_or_one_by_one(parts: list[list[bytes]]) -> None:
    found = split_at_once([join(part) for part in parts])
    assert found is not None
    assert found.frames.to_pylist() == [one for part in parts for one in part]
    assert found.counts.tolist() == list(map(len, parts))


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=6))
def test_whatever_is_taken_apart_at_once_is_as_split_does_it(payloads: list[bytes]) -> None:
    found = split_at_once(payloads)
    if found is not None:
        assert found.frames.to_pylist() == [one for payload in payloads for one in split(payload)]


def test_long_frames_and_other_texts_come_out_too() -> None:
    source = MemorySource()
    long, short, text = b"\x01" + bytes(20_000), b"\x01\x00\x00x", b'{"t": 1}\n{"t": 2}'
    for payload in (join([long, short]), text):
        source.append(data_subject(TOPIC, "p1"), payload)
    rows = rows_of(source)
    assert [row["payload"] for row in rows] == [long, short, text]
    assert [row["_kind"] for row in rows] == ["data", "data", "unknown"]


def test_a_message_that_cannot_be_taken_apart_is_a_loss() -> None:
    source = MemorySource()
    for payload in (b"\x01\x00\x00a", b"\x09\x7f\x01", b"\x01\x01\x00b"):
        source.append(data_subject(TOPIC, "p1"), payload)
    with pytest.raises(DataLoss, match="offset=2"):
        rows_of(source)
    assert [row["_offset"] for row in rows_of(source, fail=False)] == [1, 3]
