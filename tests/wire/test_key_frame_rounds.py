"""Where a key frame stands in its round, told without a reader."""

import pytest

from thinwire.codec import StreamConfig, StreamEncoder
from thinwire.errors import CorruptFrame
from thinwire.schema import Property, Schema
from thinwire.wire import KeyFrame, Request, RoundPlace, begins_round, place_in_round, read

SCHEMA = Schema("notes", [Property("room", "string", "dimension"), Property("note", "string")])


def publisher():
    return StreamEncoder(SCHEMA, StreamConfig(version=3), incarnation=7, compiled=False)


def test_a_publisher_without_sources_has_a_round_of_one():
    (frame,) = publisher().start(0)
    assert begins_round(frame)
    place = place_in_round(frame)
    assert place == RoundPlace(7, 3, 0, 0, 0)
    assert place.begins
    assert place.ends


def test_the_chunks_of_a_round_tell_where_they_stand():
    writer = publisher()
    writer.start(0)
    others = [frame for room in "abcdef" for frame in writer.publish({"room": room, "note": room * 30_000}, 0)]
    others += writer.heartbeat(1)
    chunks = writer.answer(Request(0, 0), 10)
    places = [place_in_round(chunk) for chunk in chunks]
    assert len(chunks) > 2
    assert [begins_round(chunk) for chunk in chunks] == [place.begins for place in places]
    assert [place.begins for place in places] == [True] + [False] * (len(chunks) - 1)
    assert [place.ends for place in places] == [False] * (len(chunks) - 1) + [True]
    assert [place.sources for place in places] == [len(KeyFrame.decode(read(chunk).body).sources) for chunk in chunks]
    assert not any(begins_round(frame) or place_in_round(frame) for frame in (*others, b""))


def test_half_a_key_frame_is_refused():
    (frame,) = publisher().start(0)
    with pytest.raises(CorruptFrame):
        place_in_round(frame[:-1])
    with pytest.raises(CorruptFrame):
        begins_round(frame[:12])
