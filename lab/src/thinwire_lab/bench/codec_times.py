"""Benchmarks of dictionary codecs: processor time to pack, to unpack and to train, compared with deflate.

The codec that is chosen within a quarter of deflate's time is measured on all streams together. For messages of a
hundred bytes a call of any library costs more than its work, so the slowest streams are named.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time

from thinwire.analysis.json_baseline import RAW_DEFLATE, deflate
from thinwire.dictionaries import choose, codec_of, train
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.bench.codec_sizes import SMALL, CodecSample, find_samples

ROUNDS = 5
MAX_PACK, MAX_UNPACK, MAX_TRAIN = 0.25, 0.5, 100.0
_LIMIT = 1 << 24
_NAMED = 3
"""slowest streams that a row names"""


@dataclass(frozen=True)
class CodecTimes:
    """Seconds of one stream, ours and those of the reference."""

    name: str
    ours: float
    reference: float

    @property
    def ratio(self) -> float:
        return self.ours / self.reference


def times(setting: Setting) -> Iterator[Row]:
    """Measure packing and unpacking."""
    samples = find_samples(setting)
    found = []
    for index, sample in enumerate(samples):
        found.append(_measure(sample))
        setting.progress((index + 1) / len(samples))
    packing, unpacking = zip(*filter(None, found), strict=True)
    yield _row("pack: time to deflate 6", packing, MAX_PACK)
    yield _row("unpack: time to inflate", unpacking, MAX_UNPACK)


def training_time(setting: Setting) -> Iterator[Row]:
    """Measure the training of a dictionary of 16 kB, including the trial on held-out messages."""
    samples = find_samples(setting)
    spent = size = 0.0
    for sample in samples:
        started = process_time()
        train(sample.training, sample.size)
        spent += process_time() - started
        size += sum(map(len, sample.training))
    how = f"{len(samples)} streams, {size / 1e6:.1f} MB; trial of segment lengths and testing included"
    yield Row("train 16 kB: time for a megabyte of messages", "ms/MB", 1e9 * spent / size, high=MAX_TRAIN, how=how)


def _measure(sample: CodecSample) -> tuple[CodecTimes, CodecTimes] | None:
    chosen = choose(sample.training, sizes=(SMALL, sample.size), budget=MAX_PACK)
    if chosen is None:
        return None
    codec = codec_of(chosen)
    packed, deflated = [codec.pack(m) for m in sample.testing], [deflate(m) for m in sample.testing]
    pack = race(sample.testing, codec.pack, sample.testing, deflate)
    unpack = race(packed, lambda message: codec.unpack(message, _LIMIT), deflated, _inflate)
    return CodecTimes(sample.name, *pack), CodecTimes(sample.name, *unpack)


def race(
    messages: Sequence[bytes],
    method: Callable[[bytes], bytes],
    reference_messages: Sequence[bytes],
    reference: Callable[[bytes], bytes],
) -> tuple[float, float]:
    """Return the seconds of both, the minimum of several rounds in turn, because disturbances only add time."""
    rounds = [(_seconds(method, messages), _seconds(reference, reference_messages)) for _ in range(ROUNDS)]
    return min(own for own, _ in rounds), min(other for _, other in rounds)


def _seconds(method: Callable[[bytes], bytes], messages: Sequence[bytes]) -> float:
    started = process_time()
    for message in messages:
        method(message)
    return process_time() - started


def _inflate(packed: bytes) -> bytes:
    return zlib.decompress(packed, wbits=RAW_DEFLATE)


def _row(name: str, streams: Sequence[CodecTimes], high: float) -> Row:
    value = sum(stream.ours for stream in streams) / sum(stream.reference for stream in streams)
    slowest = sorted(streams, key=lambda stream: -stream.ratio)[:_NAMED]
    how = f"{len(streams)} streams together, {ROUNDS} rounds, the best of each; slowest: "
    how += ", ".join(f"{stream.name} {stream.ratio:.2f}" for stream in slowest)
    return Row(name, "times", value, high=high, how=how)


BENCHMARKS = [Benchmark("pack and unpack", times), Benchmark("training", training_time)]
