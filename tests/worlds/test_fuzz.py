"""Whatever bytes come in, only a peer's fault comes out, and not much memory is taken."""

from random import Random

import pytest

from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.errors import CorruptFrame
from thinwire.schema import Event, Property, Schema
from thinwire.wire import FrameKind, KeyFrame, read, seal
from thinwire.wire import compact_body as compact
from thinwire_lab.robustness import fuzz
from thinwire_lab.robustness.fuzz import BOMBS, MAX_SOURCES, MUTATIONS, Target, run_fuzz, spoil


@pytest.mark.parametrize(("seed", "compiled"), [(1, True), (2, False)])
def test_only_errors_of_a_peer_come_out(seed, compiled):
    summary = run_fuzz(10_000, seed, compiled=compiled)
    assert summary.failures == []
    assert summary.inputs == 10_000
    assert summary.refused["CorruptFrame"] > 1_000
    assert summary.events > 0


@pytest.mark.slow
def test_only_errors_of_a_peer_come_out_of_very_many_inputs():
    told = []
    assert run_fuzz(20_000, 3, told.append).failures == []
    assert told[-1] == 20_000


def test_a_seed_replays():
    first, second = (run_fuzz(500, 4, compiled=False) for _ in range(2))
    assert (first.refused, first.events) == (second.refused, second.events)


def test_a_parser_that_stumbles_is_noticed(monkeypatch):
    def stumbling(body, exceptional, link):
        return [][len(body)]

    monkeypatch.setattr(compact, "decode", stumbling)
    failures = run_fuzz(400, 5, compiled=False).failures
    assert any("IndexError" in failure and "test_fuzz.py" in failure for failure in failures)


def test_a_parser_that_takes_too_much_memory_is_noticed(monkeypatch):
    monkeypatch.setattr(fuzz, "parse_message", lambda message: len(bytearray(20 << 20)))
    assert "bytes of memory" in run_fuzz(1, 6, compiled=False).failures[0]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@pytest.mark.parametrize("data", [b"", b"\1", bytes(range(40))], ids=len)
def test_every_mutation_takes_anything(mutation, data):
    chance = Random(1)
    assert all(isinstance(mutation(data, chance, b"other"), bytes) for _ in range(50))


def test_spoiling_is_seeded():
    assert spoil(b"some bytes", Random(2), b"others") == spoil(b"some bytes", Random(2), b"others")


def test_mended_frames_reach_what_lies_behind_the_checks():
    target = Target(Random(3), compiled=False)
    frame = next(frame for frame in target.frames if frame.kind in (FrameKind.DATA, FrameKind.EXCEPTION))
    told = target.receive(target.mended(frame.kind, frame.body))
    assert [type(thing) for thing in told][-1:] == [Event] or told[0].reason == "corrupt"


@pytest.mark.parametrize("bomb", BOMBS, ids=len)
def test_a_bomb_is_defused(bomb):
    raw, _ = seal(FrameKind.KEY, bomb, sequence=0, chain=0, slot=0)
    if len(bomb) < len(BOMBS[1]):
        assert len(read(raw).body) == 4_096
    elif bomb is BOMBS[2]:
        with pytest.raises(CorruptFrame):
            _ = read(raw).body


def test_a_key_frame_cannot_ask_for_more_rows_than_a_reader_allows():
    schema = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    key = KeyFrame.decode(read(StreamEncoder(schema, compiled=False).start(0)[0]).body)
    hostile = key._replace(total_sources=1 << 24, first=1 << 24).encode()
    raw, _ = seal(FrameKind.KEY, hostile, sequence=0, chain=0, incarnation=1)
    reader = StreamDecoder([schema], compiled=False, max_sources=MAX_SOURCES)
    assert reader.receive(raw, now=0.0) == []
    assert reader.state == "waiting"
