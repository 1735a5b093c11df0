"""Logs packed with dictionaries, and logs of bytes, as tables."""

from __future__ import annotations

from typing import Any

import pytest
from log_table_setup import MemorySource

from thinwire.codec import StreamConfig, StreamEncoder
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.errors import DataLoss
from thinwire.schema import Property, Schema, opaque
from thinwire.topics.dictionary_store import dictionary_pieces
from thinwire.topics.log_tables.log_table import LogTable
from thinwire.topics.names import DICTIONARIES, data_subject, key_subject, log_of
from thinwire.wire import begins_round, join

TEXT = "the door of the cold store was opened and left open for an hour"
SHARED = [
    Dictionary(TEXT.encode(), "zstd", level=3, largest=256),
    Dictionary(TEXT.encode()[::-1], "zlib", level=6, largest=256),
]
QUIET = StreamConfig(max_silence=1e9, key_frame_interval=1e9)
NOTES = Schema("notes", [Property("room", "string", "dimension"), Property("said", "string"), Property("n", "integer")])


def append(source: MemorySource, topic: str, frames: list[bytes]) -> None:
    """Append frames as an outbox does: the start of a key frame round alone, other frames joined."""
    while frames:
        alone = begins_round(frames[0])
        end = 1 if alone else next((n for n, frame in enumerate(frames) if begins_round(frame)), len(frames))
        subject = key_subject(topic, "p1") if alone else data_subject(topic, "p1")
        source.append(subject, join(frames[:end]), topic)
        frames = frames[end:]


def store(source: MemorySource, dictionary: Dictionary, under: Dictionary | None = None) -> None:
    source.put(DICTIONARIES, dictionary_pieces((under or dictionary).hash, pack(dictionary).body))


def written() -> MemorySource:
    source = MemorySource()
    source.register(NOTES)
    out = StreamEncoder(NOTES, QUIET, name="p1", compiled=False)
    append(source, "notes", out.start(0.0))
    for n in range(40):
        frames = out.use(SHARED[n // 10 % 2], 7) if n % 10 == 0 else []
        append(source, "notes", frames + out.publish({"room": "11.1", "said": f"{TEXT}, {n}", "n": n}, float(n)))
        if n == 24:
            append(source, "notes", out.start(float(n)))
    return source


def landed(source: MemorySource, topic: str, first: int = 1, *, fail: bool = True) -> list[dict[str, Any]]:
    landing = LogTable(source, topic, fail_on_data_loss=fail)
    return [row for batch in landing.rows(first, source.span(log_of(topic)).last) for row in batch.to_pylist()]


def texts(source: MemorySource, first: int = 1, *, fail: bool = True) -> list[str]:
    return [row["said"] for row in landed(source, "notes", first, fail=fail)]


def test_any_range_of_a_packed_log_has_its_rows() -> None:
    source = written()
    for dictionary in SHARED:
        store(source, dictionary)
    complete = texts(source)
    assert complete == [f"{TEXT}, {n}" for n in range(40)]
    for first in (3, 12, 27, 30):
        rest = texts(source, first)
        assert rest == complete[-len(rest) :]
        assert rest


@pytest.mark.parametrize("lie", [False, True])
def test_a_missing_dictionary_is_a_named_loss(lie: bool) -> None:
    source = written()
    store(source, SHARED[0])
    if lie:
        store(source, SHARED[0], under=SHARED[1])
    with pytest.raises(DataLoss, match="unknown dictionary"):
        texts(source)
    found = texts(source, fail=False)
    assert set(found) < {f"{TEXT}, {n}" for n in range(40)}
    assert f"{TEXT}, 9" in found


def test_a_log_of_bytes() -> None:
    topic, source = "machine.raw", MemorySource()
    source.register(opaque(topic))
    store(source, SHARED[0])
    out = StreamEncoder(opaque(topic), QUIET, name="p1")
    append(source, topic, out.start(0.0) + out.use(SHARED[0], 1))
    for n in range(5):
        append(source, topic, out.send(f"{TEXT}, {n}".encode(), 0.0))
    rows = landed(source, topic)
    assert len(rows) == 5
    assert [row["_ordinal"] for row in rows] == [1, 2, 3, 4, 5]
    assert all("$bytes" in row["payload"] for row in rows)
