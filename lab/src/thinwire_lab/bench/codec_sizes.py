"""Benchmarks of dictionary codecs: bytes per message compared with the usual codecs and stock dictionaries.

Every codec trains on the same earlier messages of a stream and packs the same later ones, one at a time; every message
is unpacked and compared. The required result is the better of two stock ways to share a dictionary of 16 kB: the
trainer of zstd without the constant bytes of a frame (levels 3 and 19, each trained at its level), and zlib with the
same bytes preset.

Baselines without training:

>>> codec = Gzip()
>>> codec.unpack(codec.pack(b"tick " * 20), limit=100) == b"tick " * 20
True
>>> sender, receiver = Previous(), Previous()
>>> for text in (b"temperature of room 11.1 is 20.5", b"temperature of room 11.1 is 20.7"):
...     packed = sender.pack(text)
...     assert receiver.unpack(packed, limit=100) == text
>>> len(packed)
7
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import process_time

import zstandard

from thinwire.dictionaries import Codec, Dictionary, choose, codec_of
from thinwire.dictionaries.codecs import Deflate, PresetDeflate
from thinwire.dictionaries.codecs.codec import read_stored
from thinwire.dictionaries.codecs.zstd import TABLES, Zstd
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.errors import ThinwireError
from thinwire.wire.frame import inflate
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.streams.named_streams import NamedStream, generated, streams

STORED = b"\x00"
_FIRST = 0x1F
_WITH_HEADER = 31


class Gzip:
    """gzip as web servers use it: deflate with a header and a checksum, 18 bytes more; `level` 1 to 9."""

    def __init__(self, level: int = 6) -> None:
        self.level = level
        self.name = f"gzip {level}"

    def pack(self, message: bytes) -> bytes:
        if not message:
            return b""
        packed = zlib.compress(message, self.level, wbits=_WITH_HEADER)
        return packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        if not packed:
            return b""
        if packed[0] != _FIRST:
            return read_stored(packed, STORED, limit)
        return inflate(packed, limit, zlib.decompressobj(_WITH_HEADER))


class Previous:
    """zstd with the previous message as the dictionary: delta coding without training. One end of a stream.

    It needs every message in order and can read nothing after a loss, so dictionaries cannot name it as their codec.

    level: of zstd; largest: bytes of the largest expected message
    """

    def __init__(self, level: int = 3, largest: int = 1 << 12) -> None:
        self.level = level
        self.largest = largest
        self.name = f"zstd {level} previous message"
        self._codec = self._after(b"")

    def pack(self, message: bytes) -> bytes:
        packed = self._codec.pack(message)
        self._codec = self._after(message)
        return packed

    def unpack(self, packed: bytes, limit: int) -> bytes:
        message = self._codec.unpack(packed, limit)
        self._codec = self._after(message)
        return message

    def _after(self, message: bytes) -> Zstd:
        return Zstd(b"" if message.startswith(TABLES) else message, self.level, self.largest)


SIZE = 16_384
TRAINING, TESTING = 2_000, 1_000
QUICK_TRAINING, QUICK_TESTING = 600, 100
_QUICK_STREAMS = 3
MIN_MESSAGES = 800
"""messages that a stream needs to be measured"""


@dataclass(frozen=True)
class CodecSample:
    """The messages of a stream: the earlier ones for training, the later ones for testing.

    error: why it could not be read
    """

    name: str
    real: bool
    training: tuple[bytes, ...] = ()
    testing: tuple[bytes, ...] = ()
    error: str = ""

    @property
    def is_measurable(self) -> bool:
        """Whether it has enough messages."""
        return bool(self.testing)

    @property
    def size(self) -> int:
        """Bytes of its dictionaries: 16 kB, or a tenth of a shorter sample."""
        return min(SIZE, sum(map(len, self.training)) // 10)

    @property
    def largest(self) -> int:
        """Bytes of the largest training message."""
        return max(map(len, self.training))

    @property
    def raw(self) -> float:
        """Bytes per message."""
        return sum(map(len, self.testing)) / len(self.testing)


def find_samples(setting: Setting, measurable: bool = True) -> list[CodecSample]:
    """Return the samples of the streams in the data folder and of the generated ones, or those that are too short."""
    training, testing = setting.size(TRAINING, QUICK_TRAINING), setting.size(TESTING, QUICK_TESTING)
    samples = _read_samples(setting.data, training, testing, _QUICK_STREAMS if setting.quick else None)
    return [sample for sample in samples if sample.is_measurable == measurable]


@cache
def _read_samples(folder: Path | None, training: int, testing: int, limit: int | None) -> tuple[CodecSample, ...]:
    real = streams(folder)[:limit] if folder is not None else []
    return tuple(_read_sample(stream, training, testing) for stream in (*real, *generated()[:limit]))


def _read_sample(stream: NamedStream, training: int, testing: int) -> CodecSample:
    """Return the messages of a stream. A short one is halved; one below the minimum has no testing messages."""
    real = stream.path is not None
    try:
        messages = list(stream.messages(training + testing))
    except ThinwireError as error:
        return CodecSample(stream.name, real, error=str(error))
    split = training if len(messages) == training + testing else len(messages) // 2
    if len(messages) < min(MIN_MESSAGES, training + testing):
        split = len(messages)
    return CodecSample(stream.name, real, tuple(messages[:split]), tuple(messages[split : split + testing]))


SMALL = 4_096
ANY_COST = 10.0
"""CPU budget without effect, because the stock ways have none"""
STOCK_LEVELS = (3, 19)
OURS = "ours"
_LIMIT = 1 << 24

BASELINES: tuple[Callable[[int], Codec], ...] = (
    lambda largest: Deflate(),
    lambda largest: Gzip(),
    lambda largest: Zstd(b"", 19, largest),
    lambda largest: Previous(3, largest),
)
"""codecs by the largest expected message"""


def sizes(setting: Setting) -> Iterator[Row]:
    """Measure one row for each stream, with the sizes of all other codecs."""
    samples = find_samples(setting)
    for index, sample in enumerate(samples):
        yield _row(sample, STOCK_LEVELS[:1] if setting.quick else STOCK_LEVELS)
        setting.progress((index + 1) / len(samples))
    for sample in find_samples(setting, measurable=False):
        note = f"not measured: {len(sample.training):,} messages, {MIN_MESSAGES:,} needed"
        name = f"{sample.name}: bytes a message"
        yield Row(name, "bytes", invalid=sample.error) if sample.error else Row(name, "bytes", note=note)


def _row(sample: CodecSample, levels: Sequence[int]) -> Row:
    baselines = dict(_measure_baseline(make, sample) for make in BASELINES)
    stock = _measure_stock(sample, levels)
    started = process_time()
    chosen = choose(sample.training, sizes=(SMALL, sample.size), budget=ANY_COST)
    spent = 1e9 * (process_time() - started) / sum(map(len, sample.training))
    codec = codec_of(chosen) if chosen is not None else Deflate()
    ours = measure_codec(codec, codec, sample.testing)
    how = f"{len(sample.training):,} messages train, the next {len(sample.testing):,} test; {_describe(chosen)}"
    how += f"; found in {spent:,.0f} ms of CPU for a megabyte of messages"
    by_method = {OURS: ours, "raw": sample.raw, **baselines, **stock}
    high = min(stock.values()) if stock else None
    return Row(f"{sample.name}: bytes a message", "bytes", ours, high=high, how=how, by_method=by_method)


def measure_codec(sender: Codec, receiver: Codec, messages: Sequence[bytes]) -> float:
    """Return the bytes per message. Every message is unpacked and compared."""
    total = 0
    for message in messages:
        packed = sender.pack(message)
        if receiver.unpack(packed, _LIMIT) != message:
            raise AssertionError(f"{sender.name} does not restore the message")
        total += len(packed)
    return total / len(messages)


def _measure_baseline(make: Callable[[int], Codec], sample: CodecSample) -> tuple[str, float]:
    sender, receiver = make(sample.largest), make(sample.largest)
    return sender.name, measure_codec(sender, receiver, sample.testing)


def _measure_stock(sample: CodecSample, levels: Sequence[int]) -> dict[str, float]:
    """Return the bytes per message of the libraries, without constant bytes; empty if their trainer fails."""
    found: dict[str, float] = {}
    for level in levels:
        try:
            trained = zstandard.train_dictionary(sample.size, list(sample.training), level=level).as_bytes()
        except zstandard.ZstdError:
            return found
        codec = Zstd(trained, level, sample.largest)
        found[f"stock zstd {level}"] = measure_codec(codec, codec, sample.testing)
        if level == levels[0]:
            preset = PresetDeflate(trained, 9)
            found["stock zlib 9"] = measure_codec(preset, preset, sample.testing)
    return found


def _describe(dictionary: Dictionary | None) -> str:
    if dictionary is None:
        return "no dictionary can be trained, so deflate"
    size, sent = len(dictionary.content), cost(dictionary)
    return f"{dictionary.codec} {dictionary.level}, {size:,} bytes, {sent:,} to send"


BENCHMARKS = [Benchmark("bytes a message", sizes)]
