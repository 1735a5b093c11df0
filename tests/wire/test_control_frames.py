"""Key frames, heartbeats, switches and requests: they round trip, and anything else is rejected."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame, UnsupportedVersion
from thinwire.wire import (
    WIRE_VERSION,
    Heartbeat,
    KeyFrame,
    PredictorChange,
    Request,
    SourceState,
    SuppressedRun,
    Switch,
    varint,
)
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import FrameKind, is_known

numbers = st.integers(0, 2**64 - 1)
small = st.integers(0, 1_000)
signed = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=12)
states = st.builds(SourceState, blobs, st.integers(1, 2**64 - 1), blobs)


@st.composite
def key_frames(draw):
    sources = tuple(draw(st.lists(states, max_size=4)))
    first = draw(small)
    total = first + len(sources) + draw(small)
    fixed = draw(st.tuples(numbers, numbers, numbers, st.binary(min_size=8, max_size=8), blobs, blobs))
    return KeyFrame(*fixed, total, first, sources)


@st.composite
def heartbeats(draw):
    silences, at = [], 0
    for gap, count, skip in draw(st.lists(st.tuples(small, st.integers(1, 50), st.integers(1, 1000)), max_size=5)):
        silences.append(SuppressedRun(at + gap, count, skip))
        at += gap + count
    return Heartbeat(draw(numbers), draw(signed), tuple(silences)), at


@given(key_frames())
def test_a_key_frame_round_trips(key):
    assert KeyFrame.decode(key.encode()) == key


@given(key_frames(), st.data())
def test_a_key_frame_with_any_altered_bit_is_rejected(key, data):
    body = bytearray(key.encode())
    index = data.draw(st.integers(0, len(body) - 1))
    body[index] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((CorruptFrame, UnsupportedVersion)):
        KeyFrame.decode(bytes(body))


@given(key_frames(), st.integers(0, 255).filter(lambda version: version != WIRE_VERSION))
def test_another_version_is_rejected_by_name(key, version):
    with pytest.raises(UnsupportedVersion, match=f"version={version}, supported=\\[1\\]") as caught:
        KeyFrame.decode(bytes((version,)) + key.encode()[1:])
    assert caught.value.version == version
    assert caught.value.supported == [WIRE_VERSION]


def test_sources_above_their_number_are_rejected():
    key = KeyFrame(1, 0, 1, bytes(8), b"", b"", 3, 2, (SourceState(b"[]", 1, b""),))
    assert KeyFrame.decode(key.encode()).first == 2
    with pytest.raises(CorruptFrame, match="more sources than the total"):
        KeyFrame.decode(key._replace(first=3).encode())
    with pytest.raises(CorruptFrame, match="more sources than the total"):
        KeyFrame.decode(key._replace(total_sources=1 << 25).encode())
    with pytest.raises(CorruptFrame, match="a source without events"):
        KeyFrame.decode(key._replace(sources=(SourceState(b"[]", 0, b""),)).encode())


@given(heartbeats())
def test_a_heartbeat_round_trips(beat):
    assert Heartbeat.decode(beat[0].encode(), sources=beat[1]) == beat[0]


@given(heartbeats().filter(lambda beat: beat[1]))
def test_a_heartbeat_for_an_invalid_source_is_rejected(beat):
    with pytest.raises(CorruptFrame, match="invalid run of suppressed events"):
        Heartbeat.decode(beat[0].encode(), sources=beat[1] - 1)


@pytest.mark.parametrize("run", [(0, 0, 1), (0, 1, 0), (0, 1, MAX_SKIP + 1), (0, 5, MAX_SKIP)])
def test_an_empty_or_too_long_suppressed_run_is_rejected(run):
    with pytest.raises(CorruptFrame):
        Heartbeat.decode(b"\x00\x00" + b"".join(varint.write(n) for n in run), sources=9)


@given(
    st.builds(Switch, numbers, numbers, st.lists(st.builds(PredictorChange, small, small, numbers, signed)).map(tuple))
)
def test_a_switch_round_trips(switch):
    assert Switch.decode(switch.encode()) == switch


@given(st.builds(Request, numbers, numbers), st.binary(min_size=1, max_size=2))
def test_a_request_round_trips_and_allows_no_trailing_bytes(request, more):
    assert Request.decode(request.encode()) == request
    with pytest.raises(CorruptFrame):
        Request.decode(request.encode() + more)


@given(st.binary(max_size=60))
def test_any_bytes_raise_only_documented_errors(body):
    for decode in (KeyFrame.decode, Switch.decode, Request.decode, lambda b: Heartbeat.decode(b, 1 << 20)):
        try:
            decode(body)
        except (CorruptFrame, UnsupportedVersion):
            continue


@given(st.binary(max_size=60))
def test_an_invalid_key_frame_with_a_valid_checksum_is_corrupt(body):
    key = KeyFrame(1, 2, 3, bytes(8), b"", b"", 0, 0, ()).encode()
    sealed = key[:-5] + body
    try:
        KeyFrame.decode(sealed + crc32(sealed).to_bytes(4, "big"))
    except CorruptFrame:
        return


def test_only_the_frame_kinds_of_this_version_are_known():
    assert [kind for kind in range(16) if is_known(kind)] == sorted(FrameKind)
