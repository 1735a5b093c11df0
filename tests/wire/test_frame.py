"""Headers, the running check, packing and batches."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame, UnknownDictionary
from thinwire.wire import FrameKind, join, read, seal, split, varint
from thinwire.wire.frame import MAX_FRAME, MAX_FRAMES, MAX_MESSAGE, inflate, pack

bodies = st.binary(max_size=200)
chains = st.integers(0, 2**32 - 1)
kinds = st.integers(0, 15)
sequences = st.integers(0, 2**64 - 1)
inner = st.binary(min_size=1, max_size=20).filter(lambda frame: frame[0] & 15 != FrameKind.BATCH)


@given(kinds, bodies, sequences, chains, st.integers(0, 2**32), st.booleans(), st.booleans())
def test_a_frame_round_trips(kind, body, sequence, chain, incarnation, wide, packed):
    sent = zlib.compress(body, wbits=-15) if packed else body
    slot = 0 if packed else None
    raw, after = seal(kind, sent, sequence=sequence, chain=chain, incarnation=incarnation, wide=wide, slot=slot)
    frame = read(raw)
    assert (frame.kind, frame.incarnation, frame.wide, frame.slot) == (kind, incarnation % 4, wide, slot)
    assert frame.sequence == sequence % (65_536 if wide else 256)
    assert (frame.body, frame.raw) == (body, raw)
    assert frame.chain_after(chain) == after
    assert after & 0xFF == frame.check
    assert len(raw) - len(sent) == frame.header_size == 3 + wide + packed


@given(st.lists(st.tuples(kinds, bodies), min_size=1, max_size=8), st.booleans())
def test_the_check_is_the_crc_of_all_frames_without_their_checks(frames, wide):
    chain, everything = 0, b""
    for sequence, (kind, body) in enumerate(frames):
        raw, chain = seal(kind, body, sequence=sequence, chain=chain, wide=wide)
        everything += raw[: 2 + wide] + raw[3 + wide :]
        assert raw[2 + wide] == zlib.crc32(everything) & 0xFF
    assert chain == zlib.crc32(everything)


@given(bodies, chains, st.data())
def test_an_altered_bit_changes_the_running_check(body, chain, data):
    raw, after = seal(FrameKind.DATA, body, sequence=7, chain=chain)
    index = data.draw(st.sampled_from([at for at in range(len(raw)) if at != 2]))
    flipped = raw[index] ^ 1 << data.draw(st.integers(0, 3 if index == 0 else 7))
    altered = read(raw[:index] + bytes((flipped,)) + raw[index + 1 :])
    assert altered.chain_after(chain) != after


@given(st.binary(max_size=40))
def test_any_bytes_are_a_frame_or_one_of_two_errors(raw):
    try:
        frame = read(raw)
    except (CorruptFrame, UnknownDictionary):
        return
    assert frame.raw == raw


@pytest.mark.parametrize("raw", [b"", b"\x01", b"\x01\x00", b"\x11\x00\x00", b"\x21\x00\x00", b"\x31\x00\x00\x00"])
def test_a_truncated_header_is_rejected(raw):
    with pytest.raises(CorruptFrame):
        read(raw)


def test_a_frame_above_its_limit_is_rejected():
    with pytest.raises(CorruptFrame) as caught:
        read(bytes(MAX_FRAME + 1))
    assert (caught.value.length, caught.value.limit) == (MAX_FRAME + 1, MAX_FRAME)


@given(st.integers(1, 255))
def test_an_unknown_dictionary_is_named(slot):
    raw, _ = seal(FrameKind.DATA, b"body", sequence=0, chain=0, slot=slot)
    frame = read(raw)
    with pytest.raises(UnknownDictionary) as caught:
        _ = frame.body
    assert caught.value.slot == slot


@given(st.binary(max_size=300) | st.binary(max_size=9).map(lambda part: part * 40))
def test_packing_round_trips_and_never_increases_the_size(body):
    packed, slot = pack(body)
    assert len(packed) + (slot is not None) <= len(body)
    assert (packed if slot is None else inflate(packed, len(body))) == body


def test_a_decompression_bomb_is_stopped_at_the_limit():
    bomb = zlib.compress(bytes(MAX_FRAME + 1), 9, wbits=-15)
    assert len(bomb) < 2_000
    with pytest.raises(CorruptFrame, match="limit"):
        inflate(bomb, MAX_FRAME)
    assert len(inflate(zlib.compress(bytes(MAX_FRAME), wbits=-15), MAX_FRAME)) == MAX_FRAME


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"\xff" + b])
def test_a_truncated_padded_or_broken_deflated_part_is_rejected(change):
    with pytest.raises(CorruptFrame):
        inflate(change(zlib.compress(b"a body of some length", wbits=-15)), 100)


@given(st.lists(inner, max_size=6))
def test_a_batch_round_trips(frames):
    assert split(join(frames)) == frames


@given(st.binary(max_size=30) | st.binary(max_size=30).map(lambda rest: b"\x09" + rest))
def test_a_message_equals_its_joined_frames_or_is_corrupt(message):
    try:
        frames = split(message)
    except CorruptFrame:
        assert message[0] & 15 == FrameKind.BATCH
        return
    if not message or message[0] & 15 != FrameKind.BATCH:
        assert frames == [message]
    else:
        assert b"".join(varint.write_blob(frame) for frame in frames) == message[1:]


@pytest.mark.parametrize("message", [b"\x09\x00", b"\x09\x02\x01", b"\x09\x01\x09", b"\x09\x03\x01\x00", b"\x09\x80"])
def test_a_batch_with_an_empty_nested_or_truncated_frame_is_rejected(message):
    with pytest.raises(CorruptFrame):
        split(message)


def test_a_message_has_limits():
    with pytest.raises(CorruptFrame) as caught:
        split(bytes(MAX_MESSAGE + 1))
    assert caught.value.limit == MAX_MESSAGE
    with pytest.raises(CorruptFrame) as caught:
        split(b"\x09" + b"\x01\x01" * (MAX_FRAMES + 1))
    assert caught.value.limit == MAX_FRAMES
