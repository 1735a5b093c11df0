"""Benchmarks of codecs: streams are split by time, codecs are compared, every message is checked."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from thinwire_lab.bench import codec_sizes as codecs
from thinwire_lab.bench import codec_times as time
from thinwire_lab.bench.benchmark import Setting, run_benchmark
from thinwire_lab.bench.codec_sizes import CodecSample, find_samples


class Lossy:
    """A codec that loses the last byte."""

    name = "lossy"

    def pack(self, message: bytes) -> bytes:
        return message[:-1]

    def unpack(self, packed: bytes, limit: int) -> bytes:
        return packed[:limit]


@pytest.fixture
def rooms(tmp_path: Path) -> Setting:
    lines = [b'{"room":"11.%d","t":%d.%d,"state":"normal"}' % (n % 13, n * 7 % 30, n * 3 % 10) for n in range(900)]
    (tmp_path / "rooms.json").write_bytes(b"\n".join(lines))
    (tmp_path / "short.json").write_bytes(b"\n".join(lines[:50]))
    (tmp_path / "torn.json.gz").write_bytes(gzip.compress(b"\n".join(lines))[:300])
    return Setting(quick=True, data=tmp_path)


def test_the_earlier_messages_train_and_the_next_test(rooms: Setting) -> None:
    first, *others = find_samples(rooms)
    lines = (rooms.data or Path()).joinpath("rooms.json").read_bytes().split(b"\n")
    assert (first.name, first.real) == ("rooms", True)
    assert [*first.training, *first.testing] == lines[:700]
    assert not any(sample.real for sample in others), "fifty messages are too few"


def test_streams_that_cannot_be_measured_are_named(rooms: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    find = codecs.find_samples
    monkeypatch.setattr(
        codecs, "find_samples", lambda setting, measurable=True: [] if measurable else find(setting, False)
    )
    short, torn = codecs.sizes(rooms)
    assert (short.name, short.holds) == ("short: bytes a message", None)
    assert "50 messages" in short.note
    assert (torn.holds, "torn.json.gz" in torn.invalid) == (False, True)


def test_messages_that_no_dictionary_can_be_made_of_are_deflated(rooms: Setting) -> None:
    row = codecs._row(CodecSample("same", True, (b"ping",) * 600, (b"ping",) * 100), (3,))
    assert (row.value, row.holds) == (5, None)


def test_a_lossy_codec_is_detected() -> None:
    with pytest.raises(AssertionError, match="lossy"):
        codecs.measure_codec(Lossy(), Lossy(), [b"abc"])


@pytest.mark.slow
def test_every_stream_has_a_row_with_the_stock_methods_for_comparison(rooms: Setting) -> None:
    first, *_ = rows = [row for benchmark in codecs.BENCHMARKS for row in run_benchmark(benchmark, rooms)]
    assert len(rows) == len(find_samples(rooms)) + 2, "one that is short, one that is torn"
    assert first.value is not None
    assert first.high is not None
    assert not first.invalid
    methods = {"ours", "raw", "deflate 6", "gzip 6", "zstd 3 previous message", "stock zstd 3", "stock zlib 9"}
    assert methods <= set(first.by_method)


@pytest.mark.slow
def test_time_is_reported_as_a_multiple_of_deflate(rooms: Setting) -> None:
    pack, unpack, training = (row for benchmark in time.BENCHMARKS for row in run_benchmark(benchmark, rooms))
    assert all(row.value is not None and row.value > 0 for row in (pack, unpack, training))
    assert (pack.high, unpack.high, training.high) == (0.25, 0.5, 100.0)
