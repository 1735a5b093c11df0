"""Recordings: content, queries compared with a list, and detection of damage."""

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thinwire.brokers.protocol import Span, StoredMessage
from thinwire.brokers.recording import RecordingWriter, open_recording
from thinwire.brokers.recording.block_format import encode
from thinwire.brokers.subjects import matches
from thinwire.errors import (
    ConfigError,
    CorruptRecording,
    MissingData,
    PayloadTooLarge,
    ThinwireError,
    TransportError,
    UnknownLog,
    UnsupportedVersion,
)

LOG = "tw_log_building~rooms"
SUBJECTS = ["tw.log.rooms.p1.d", "tw.log.rooms.p1.k", "tw.log.rooms.p2.d", "tw.log.rooms.p2.k"]
PATTERNS = [">", "tw.log.rooms.*.k", "tw.log.rooms.p1.*", "tw.log.rooms.p2.k", "tw.none"]


@st.composite
def logs(draw):
    """Messages of a log with gaps in the offsets and times that decrease at some messages."""
    jumps = draw(st.lists(st.sampled_from([1, 1, 1, 5]), max_size=40))
    offset, messages = draw(st.integers(0, 10)), []
    for jump in jumps:
        offset += jump
        time = 1_700_000_000 + draw(st.integers(-5, 40)) + offset
        messages.append(StoredMessage(offset, draw(st.sampled_from(SUBJECTS)), draw(st.binary(max_size=30)), time))
    return messages


def write(path, messages, **options):
    with RecordingWriter(path, sync="never", **options) as out:
        for stored in messages:
            out.append(LOG, stored)


def everything(path, log=LOG):
    with open_recording(path) as recording:
        span = recording.span(log)
        return [stored for block in recording.read(log, span.first, span.last) for stored in block]


@pytest.fixture
def messages():
    return [StoredMessage(n, SUBJECTS[n % 4], bytes([n]) * (n % 7), 1000.0 + n) for n in range(1, 31)]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=logs(), block=st.integers(1, 200), segment=st.integers(1, 600), cut=st.integers(0, 40))
def test_recording_equals_a_list(tmp_path_factory, messages, block, segment, cut):
    path = tmp_path_factory.mktemp("recording")
    before = 0
    for part in (messages[:cut], messages[cut:]):
        with RecordingWriter(path, block=block, segment=segment, sync="never") as out:
            assert out.last(LOG) == before
            for stored in part:
                out.append(LOG, stored)
            before = out.last(LOG)
    assert everything(path) == messages
    with open_recording(path) as recording:
        check_requests(recording, messages)


def check_requests(recording, messages):
    offsets = [stored.offset for stored in messages]
    span = recording.span(LOG)
    assert span[:3] == ((offsets[0], offsets[-1], len(offsets)) if offsets else Span(1, 0, 0, 0)[:3])
    for pattern in PATTERNS:
        matching = [stored for stored in messages if matches(pattern, stored.subject)]
        assert recording.last(LOG, pattern) == (matching[-1] if matching else None)
        assert recording.subjects(LOG, pattern) == {
            s.subject: [t.subject for t in matching].count(s.subject) for s in matching
        }
        for offset in range(0, span.last + 3, 3):
            before = [stored for stored in matching if stored.offset <= offset]
            assert recording.last(LOG, pattern, up_to=offset) == (before[-1] if before else None)
            found = [s for part in recording.read(LOG, offset, offset + 7, subjects=[pattern, "tw.x"]) for s in part]
            assert found == [stored for stored in matching if offset <= stored.offset <= offset + 7]
    for time in {stored.time + step for stored in messages for step in (-0.5, 0, 0.5)} | {0.0, 1e12}:
        later = [stored.offset for stored in messages if stored.time >= time]
        assert recording.offset_at(LOG, time) == (later[0] if later else span.last + 1)
    missing = set(range(span.first, span.last)) - set(offsets)
    assert [n for first, last in recording.log(LOG).gaps() for n in range(first, last + 1)] == sorted(missing)
    assert recording.log(LOG).times() == ((messages[0].time, messages[-1].time) if messages else None)


def test_blocks_contain_the_messages(tmp_path, messages):
    write(tmp_path, messages, block=40)
    with open_recording(tmp_path) as recording:
        blocks = list(recording.read_blocks(LOG, 3, 28, subjects=["tw.log.rooms.p1.*"]))
    rows = [
        row for block in blocks for row in zip(block.offsets, block.subjects, block.payloads, block.times, strict=True)
    ]
    assert rows == [tuple(s) for s in messages if 3 <= s.offset <= 28 and ".p1." in s.subject]
    assert {(block.offsets.dtype.str, block.times.dtype.str) for block in blocks} == {("<i8", "<f8")}


def test_documents_are_stored_once_and_the_newest_is_read(tmp_path):
    for value in (b"{}", b"{}", b"{1}"):
        with RecordingWriter(tmp_path, sync="never") as out:
            out.put_document("tw_registry", "topic.rooms", value)
            out.put_document("tw_registry", "schema.rooms.00ff", b"s")
    with open_recording(tmp_path) as recording:
        assert recording.buckets() == ["tw_registry"]
        assert recording.document("tw_registry", "topic.rooms") == b"{1}"
        assert recording.document("tw_registry", "topic.halls") is None
        assert recording.document("tw_facts", "any") is None
        assert recording.documents("tw_registry", "schema.>") == {"schema.rooms.00ff": b"s"}
    assert len(list((tmp_path / "buckets" / "tw_registry").glob("*.seg"))) == 2


def test_killed_writer_loses_only_unflushed_messages(tmp_path, messages):
    """The last block is truncated at every byte; then a new writer continues after the complete blocks."""
    complete = tmp_path / "whole"
    out = RecordingWriter(complete, sync="never")
    for stored in messages[:20]:
        out.append(LOG, stored)
    out.flush()
    for stored in messages[20:25]:
        out.append(LOG, stored)
    out.flush()
    data = next((complete / "logs" / LOG).iterdir()).read_bytes()
    begin = len(data) - len(encode(messages[20:25]))
    for length in range(begin, len(data)):
        copy = tmp_path / str(length)
        shutil.copytree(complete, copy)
        file = next((copy / "logs" / LOG).iterdir())
        file.write_bytes(data[:length])
        assert everything(copy) == messages[:20]
        with open_recording(copy) as recording:
            cuts = [(segment.file, segment.index.length, segment.truncated) for segment in recording.log(LOG).truncated]
            assert cuts == ([] if length == begin else [(file, begin, length - begin)])
        with RecordingWriter(copy, sync="never") as again:
            assert again.last(LOG) == 20
            for stored in messages[20:]:
                again.append(LOG, stored)
        assert file.read_bytes() == data[:length]
        assert everything(copy) == messages
    out.close()
    assert everything(complete) == messages[:25]


@pytest.mark.parametrize("length", range(8))
def test_segment_without_a_block_is_replaced(tmp_path, messages, length):
    write(tmp_path, messages[:1])
    [file] = (tmp_path / "logs" / LOG).glob("*.seg")
    file.with_suffix(".idx").unlink()
    file.write_bytes(file.read_bytes()[:length])
    assert everything(tmp_path) == []
    write(tmp_path, messages)
    assert everything(tmp_path) == messages


def test_every_flipped_byte_is_detected(tmp_path, messages):
    write(tmp_path, messages[:9], block=10)
    files = sorted((tmp_path / "logs" / LOG).iterdir())
    assert {file.suffix for file in files} == {".seg", ".idx"}
    for file in files:
        good = file.read_bytes()
        for index in range(len(good)):
            file.write_bytes(good[:index] + bytes([good[index] ^ 0x41]) + good[index + 1 :])
            with pytest.raises((CorruptRecording, UnsupportedVersion)) as found:
                everything(tmp_path)
            assert file.name in str(found.value)
            if file.suffix == ".seg" and index >= 8:
                assert 8 <= found.value.byte <= index
        file.write_bytes(good)
    assert everything(tmp_path) == messages[:9]


def test_segment_without_an_index_is_checked(tmp_path, messages):
    write(tmp_path, messages[:9], block=10)
    [file] = (tmp_path / "logs" / LOG).glob("*.seg")
    file.with_suffix(".idx").unlink()
    assert everything(tmp_path) == messages[:9]
    good = file.read_bytes()
    for index in range(len(good)):
        file.write_bytes(good[:index] + bytes([good[index] ^ 0x80]) + good[index + 1 :])
        with pytest.raises((CorruptRecording, UnsupportedVersion)):
            everything(tmp_path)


def test_truncated_finished_segment_is_detected(tmp_path, messages):
    write(tmp_path, messages)
    [file] = (tmp_path / "logs" / LOG).glob("*.seg")
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(CorruptRecording, match="unexpected end of file"):
        everything(tmp_path)
    file.unlink()
    with pytest.raises(CorruptRecording, match="segment of this index is missing"):
        everything(tmp_path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.binary(max_size=200), suffix=st.sampled_from([".idx", ".seg"]))
def test_garbage_raises_corrupt_recording(tmp_path_factory, garbage, suffix):
    path = tmp_path_factory.mktemp("garbage")
    write(path, [StoredMessage(1, "a.b", b"x", 1.0)])
    [file] = (path / "logs" / LOG).glob("*.seg")
    file.with_suffix(suffix).write_bytes(garbage)
    with pytest.raises((CorruptRecording, UnsupportedVersion)):
        everything(path)


def test_one_writer_at_a_time(tmp_path):
    with RecordingWriter(tmp_path), pytest.raises(ConfigError, match="another process"):
        RecordingWriter(tmp_path)
    RecordingWriter(tmp_path).close()


def test_nothing_follows_an_incomplete_block(tmp_path, messages):
    """On a full disk flushed messages remain readable, and a new writer continues."""

    class Full:
        def __init__(self, file):
            self.file, self.name = file, file.name

        def write(self, data):
            self.file.write(data[:10])
            raise OSError(28, "No space left on device")

        def __getattr__(self, name):
            return getattr(self.file, name)

    out = RecordingWriter(tmp_path, sync="never")
    out.append(LOG, messages[0])
    out.flush()
    part = out._logs[LOG]
    part._file = Full(part._file)
    out.append(LOG, messages[1])
    with pytest.raises(OSError, match="No space"):
        out.flush()
    with pytest.raises(TransportError, match="open the recording again"):
        out.close()
    assert everything(tmp_path) == messages[:1]
    write(tmp_path, messages[1:])
    assert everything(tmp_path) == messages


@pytest.mark.parametrize(
    ("stored", "error"),
    [
        (StoredMessage(5, "a.b", b"", 1.0), TransportError),
        (StoredMessage(6, "a.*", b"", 1.0), TransportError),
        (StoredMessage(6, "a.b", bytes(1 + (64 << 20)), 1.0), PayloadTooLarge),
    ],
    ids=["order", "subject", "size"],
)
def test_invalid_messages_are_refused(tmp_path, stored, error):
    with RecordingWriter(tmp_path, sync="never") as out:
        out.append(LOG, StoredMessage(5, "a.b", b"", 1.0))
        with pytest.raises(error):
            out.append(LOG, stored)
    assert [found.offset for found in everything(tmp_path)] == [5]


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(MissingData):
        open_recording(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        RecordingWriter(tmp_path)
    marker = tmp_path / "recording.json"
    marker.write_text('{"kind": "thinwire recording", "version": 2}')
    with pytest.raises(UnsupportedVersion):
        open_recording(tmp_path)
    marker.write_text("[]")
    with pytest.raises(CorruptRecording):
        open_recording(tmp_path)


@pytest.mark.parametrize("options", [{"sync": "sometimes"}, {"block": 0}, {"segment": 0}], ids=str)
def test_settings_outside_their_limits_are_refused(tmp_path, options):
    with pytest.raises(ConfigError):
        RecordingWriter(tmp_path, **options)


def test_names_cannot_leave_the_folder(tmp_path):
    write(tmp_path, [])
    with open_recording(tmp_path) as recording:
        with pytest.raises(UnknownLog, match="not recorded"):
            recording.span("tw_log_halls")
        for name in ("../x", "", "a/b", "."):
            with pytest.raises(ThinwireError):
                recording.span(name)


@pytest.mark.parametrize("sync", ["block", "never", "segment"])
def test_sync_modes(tmp_path, messages, sync):
    with RecordingWriter(tmp_path, block=50, segment=200, sync=sync) as out:
        for stored in messages:
            out.append(LOG, stored)
    assert everything(tmp_path) == messages
    assert out.written == sum(file.stat().st_size for file in tmp_path.rglob("*.seg"))
