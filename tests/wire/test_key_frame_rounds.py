"""The position of a key frame in its round, read without a decoder."""

import pytest

from thinwire.codec import StreamConfig, StreamEncoder
from thinwire.errors import CorruptFrame
from thinwire.schema import Property, Schema
from thinwire.wire import Request, begins_round, read_key_frame

SCHEMA = Schema("notes", [Property("room", "string", "dimension"), Property("note", "string")])


def publisher():
    return StreamEncoder(SCHEMA, StreamConfig(version=3), incarnation=7, compiled=False)


def test_a_publisher_without_sources_has_a_round_of_one():
    (frame,) = publisher().start(0)
    assert begins_round(frame)
    key = read_key_frame(frame)
    assert (key.incarnation, key.config_version, key.first, key.sources, key.total_sources) == (7, 3, 0, (), 0)
    assert key.is_first
    assert key.is_last


def test_the_chunks_of_a_round_state_their_position():
    writer = publisher()
    writer.start(0)
    others = [frame for room in "abcdef" for frame in writer.publish({"room": room, "note": room * 30_000}, 0)]
    others += writer.heartbeat(1)
    chunks = writer.answer(Request(0, 0), 10)
    keys = [read_key_frame(chunk) for chunk in chunks]
    assert len(chunks) > 2
    assert [begins_round(chunk) for chunk in chunks] == [key.is_first for key in keys]
    assert [key.is_first for key in keys] == [True] + [False] * (len(chunks) - 1)
    assert [key.is_last for key in keys] == [False] * (len(chunks) - 1) + [True]
    assert sum(len(key.sources) for key in keys) == 6
    assert not any(begins_round(frame) or read_key_frame(frame) for frame in (*others, b""))


def test_a_truncated_key_frame_is_rejected():
    (frame,) = publisher().start(0)
    with pytest.raises(CorruptFrame):
        read_key_frame(frame[:-1])
    with pytest.raises(CorruptFrame):
        begins_round(frame[:12])
