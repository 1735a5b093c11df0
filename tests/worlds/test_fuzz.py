"""Altered input raises only errors of a peer and takes little memory; other outcomes are found."""

from random import Random

import fuzz
import pytest
from fuzz import MAX_SOURCES, Target, run_fuzz
from fuzz_mutations import BOMBS, MUTATIONS, alter

from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.errors import CorruptFrame
from thinwire.schema import Event, Property, Schema
from thinwire.wire import FrameKind, KeyFrame, compact_body, read, seal


@pytest.mark.parametrize(("seed", "compiled"), [(1, True), (2, False)])
def test_altered_input_raises_only_errors_of_a_peer(seed, compiled):
    report = run_fuzz(10_000, seed, compiled=compiled)
    assert report.failures == []
    assert report.inputs == 10_000
    assert report.refused["CorruptFrame"] > 1_000
    assert report.events > 0


@pytest.mark.slow
def test_many_altered_inputs_raise_only_errors_of_a_peer():
    progress = []
    assert run_fuzz(20_000, 3, progress.append).failures == []
    assert progress[-1] == 20_000


def test_a_seed_repeats_the_same_inputs():
    first, second = (run_fuzz(500, 4, compiled=False) for _ in range(2))
    assert (first.refused, first.events) == (second.refused, second.events)


def test_another_error_of_a_parser_is_found(monkeypatch):
    def decode_with_an_error(body, exceptional, state):
        return [][len(body)]

    monkeypatch.setattr(compact_body, "decode", decode_with_an_error)
    failures = run_fuzz(400, 5, compiled=False).failures
    assert any("IndexError" in failure and "test_fuzz.py" in failure for failure in failures)


def test_a_parser_that_takes_too_much_memory_is_found(monkeypatch):
    monkeypatch.setattr(fuzz, "parse_message", lambda message: len(bytearray(20 << 20)))
    assert "bytes of memory" in run_fuzz(1, 6, compiled=False).failures[0]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@pytest.mark.parametrize("data", [b"", b"\1", bytes(range(40))], ids=len)
def test_every_mutation_accepts_any_bytes(mutation, data):
    random = Random(1)
    assert all(isinstance(mutation(data, random, b"other"), bytes) for _ in range(50))


def test_alterations_are_repeated_with_the_same_seed():
    assert alter(b"some bytes", Random(2), b"others") == alter(b"some bytes", Random(2), b"others")


def test_a_frame_with_valid_checksums_is_decoded():
    target = Target(Random(3), compiled=False)
    frame = next(frame for frame in target.frames if frame.kind in (FrameKind.DATA, FrameKind.EXCEPTION))
    deliveries = target.receive(target.frame_with_valid_checksums(frame.kind, frame.body))
    assert isinstance(deliveries[-1], Event) or deliveries[0].reason == "corrupt"


@pytest.mark.parametrize("bomb", BOMBS, ids=len)
def test_a_decompression_bomb_is_refused(bomb):
    raw, _ = seal(FrameKind.KEY, bomb, sequence=0, chain=0, slot=0)
    if len(bomb) < len(BOMBS[1]):
        assert len(read(raw).body) == 4_096
    elif bomb is BOMBS[2]:
        with pytest.raises(CorruptFrame):
            _ = read(raw).body


def test_a_key_frame_cannot_claim_more_sources_than_a_decoder_allows():
    schema = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    key = KeyFrame.decode(read(StreamEncoder(schema, compiled=False).start(0)[0]).body)
    body = key._replace(total_sources=1 << 24, first=1 << 24).encode()
    raw, _ = seal(FrameKind.KEY, body, sequence=0, chain=0, incarnation=1)
    decoder = StreamDecoder([schema], compiled=False, max_sources=MAX_SOURCES)
    assert decoder.receive(raw, now=0.0) == []
    assert decoder.state == "waiting"
