"""gzip, as web servers use it: deflate with a header and a checksum. A baseline.

>>> codec = Gzip()
>>> codec.unpack(codec.pack(b"tick " * 20), limit=100) == b"tick " * 20
True

zstd with the message before as the dictionary: what delta coding gives without any training. A baseline.

It needs every message, in order: after a loss nothing can be read any more. That is why it is not one of the codecs
that a dictionary can name.

>>> sender, receiver = Previous(), Previous()
>>> for text in (b"temperature of room 11.1 is 20.5", b"temperature of room 11.1 is 20.7"):
...     packed = sender.pack(text)
...     assert receiver.unpack(packed, limit=100) == text
>>> len(packed)
7

The streams that codecs are measured on, each cut into what trains and the later messages that judge.

VCDIFF (RFC 3284) to the message before, by xdelta3: a baseline where its package `pyxdelta` is installed.

The package works on files only, so a few messages must do; the names of the files that it writes into its header are
not counted.

Bytes a message, stream by stream: ours beside the usual codecs, and beside stock dictionaries of the same size.

Every codec trains on the same earlier messages and packs the same later ones, one at a time; every message is unpacked
again and compared. The bar is the better of two stock ways to share a dictionary of 16 kB: zstd's own trainer with the
constant bytes of a frame not counted (levels 3 and 19, each trained at its level), and zlib with the same bytes preset.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import zstandard

from thinwire.dictionaries import Codec, Dictionary, choose, codec_of
from thinwire.dictionaries.codecs import Deflate, PresetDeflate
from thinwire.dictionaries.codecs.codec import read_stored
from thinwire.dictionaries.codecs.zstd import TABLES, Zstd
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.errors import ThinwireError
from thinwire.wire.frame import inflate
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.streams.named_streams import NamedStream, generated, streams

STORED = b"\x00"
_FIRST = 0x1F
_WITH_HEADER = 31


class Gzip:
    """Eighteen bytes more than raw deflate; `level` 1 to 9."""

    def __init__(self, level: int = 6) -> None:
        self.level = level
        self.name = f"gzip {level}"

    def pack(self, message: bytes) -> bytes:
        """One whole gzip file, or the message behind a mark where that is shorter."""
        if not message:
            return b""
        packed = zlib.compress(message, self.level, wbits=_WITH_HEADER)
        return packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Inflated, as far as the limit, and compared with its checksum."""
        if not packed:
            return b""
        if packed[0] != _FIRST:
            return read_stored(packed, STORED, limit)
        return inflate(packed, limit, zlib.decompressobj(_WITH_HEADER))


class Previous:
    """One end of a stream, the sending or the receiving one.

    level: of zstd
    largest: bytes of the largest message to be expected
    """

    def __init__(self, level: int = 3, largest: int = 1 << 12) -> None:
        self.level = level
        self.largest = largest
        self.name = f"zstd {level} previous message"
        self._codec = self._after(b"")

    def pack(self, message: bytes) -> bytes:
        """The message as a change of the one before."""
        packed = self._codec.pack(message)
        self._codec = self._after(message)
        return packed

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """The message again, if the one before was unpacked as well; what cannot be read changes nothing."""
        message = self._codec.unpack(packed, limit)
        self._codec = self._after(message)
        return message

    def _after(self, message: bytes) -> Zstd:
        return Zstd(b"" if message.startswith(TABLES) else message, self.level, self.largest)


SIZE = 16_384
TRAINING, JUDGING = 2_000, 1_000
QUICK_TRAINING, QUICK_JUDGING = 600, 100
_QUICK_STREAMS = 3
SHORTEST = 800
"""messages of a stream that says anything"""


@dataclass(frozen=True)
class Cut:
    """A stream in two parts, the earlier to train on and the later to judge by.

    trouble: why it could not be read
    """

    name: str
    real: bool
    training: tuple[bytes, ...] = ()
    judging: tuple[bytes, ...] = ()
    trouble: str = ""

    @property
    def telling(self) -> bool:
        """Has it enough messages to say anything?"""
        return bool(self.judging)

    @property
    def size(self) -> int:
        """Bytes of a dictionary for it: 16 kB, or a tenth of a shorter sample."""
        return min(SIZE, sum(map(len, self.training)) // 10)

    @property
    def largest(self) -> int:
        """Bytes of the largest message that trains."""
        return max(map(len, self.training))

    @property
    def raw(self) -> float:
        """Bytes a message."""
        return sum(map(len, self.judging)) / len(self.judging)


def cuts(setting: Setting) -> list[Cut]:
    """Every stream of the folder that was named, then the generated ones; those that say anything."""
    return [cut for cut in _all(setting) if cut.telling]


def left_out(setting: Setting) -> list[Cut]:
    """The others: too short, or not to be read."""
    return [cut for cut in _all(setting) if not cut.telling]


def _all(setting: Setting) -> list[Cut]:
    training = setting.size(TRAINING, QUICK_TRAINING)
    judging = setting.size(JUDGING, QUICK_JUDGING)
    return list(_cuts(setting.data, training, judging, _QUICK_STREAMS if setting.quick else None))


@cache
def _cuts(folder: Path | None, training: int, judging: int, most: int | None) -> tuple[Cut, ...]:
    real = streams(folder)[:most] if folder is not None else []
    every = [*real, *generated()[:most]]
    return tuple(_cut(stream, training, judging) for stream in every)


def _cut(stream: NamedStream, training: int, judging: int) -> Cut:
    """The first messages train and the next judge; of a short stream half and half, of one that says nothing none."""
    real = stream.path is not None
    try:
        messages = list(stream.messages(training + judging))
    except ThinwireError as problem:
        return Cut(stream.name, real, trouble=str(problem))
    at = training if len(messages) == training + judging else len(messages) // 2
    if len(messages) < min(SHORTEST, training + judging):
        at = len(messages)
    return Cut(stream.name, real, tuple(messages[:at]), tuple(messages[at : at + judging]))


MESSAGES = 20
_INDICATOR = 4
"""where a patch says what its header has; the length of the names comes next, seven bits a byte"""
_NAMES_FOLLOW = 4


def vcdiff_bytes(messages: Sequence[bytes]) -> dict[str, float]:
    """Bytes a message, under the name of the codec; nothing where the package is missing."""
    if find_spec("pyxdelta") is None:
        return {}
    few = messages[: MESSAGES + 1]
    with TemporaryDirectory() as folder:
        sizes = [_difference(Path(folder), *pair) for pair in pairwise(few)]
    return {f"VCDIFF previous message ({len(sizes)} messages)": sum(sizes) / len(sizes)}


def _difference(folder: Path, before: bytes, after: bytes) -> int:
    source, target, patch, back = (folder / name for name in ("s", "t", "p", "b"))
    source.write_bytes(before)
    target.write_bytes(after)
    package = import_module("pyxdelta")
    package.run(str(source), str(target), str(patch))
    package.decode(str(source), str(patch), str(back))
    if back.read_bytes() != after:
        raise AssertionError("xdelta3 does not give back what it was given")
    return without_names(patch.read_bytes())


def without_names(patch: bytes) -> int:
    """The length of a patch without the names of files in its header.

    >>> without_names(bytes.fromhex("d6c3c400") + b"\\x04" + b"\\x03s/t" + b"window")
    11
    """
    if not patch[_INDICATOR] & _NAMES_FOLLOW:
        return len(patch)
    length = at = 0
    while True:
        at += 1
        length = length << 7 | patch[_INDICATOR + at] & 0x7F
        if patch[_INDICATOR + at] < 0x80:
            return len(patch) - at - length


SMALL = 4_096
ANY_COST = 10.0
"""budget that lets every candidate take part, as the stock ways have no budget either"""
STOCK_LEVELS = (3, 19)
OURS = "ours"
_LIMIT = 1 << 24

BASELINES: tuple[Callable[[int], Codec], ...] = (
    lambda largest: Deflate(),
    lambda largest: Gzip(),
    lambda largest: Zstd(b"", 19, largest),
    lambda largest: Previous(3, largest),
)
"""each made for the largest message to be expected"""


def sizes(setting: Setting) -> Iterator[Row]:
    """One row a stream, with all codecs beside ours."""
    every = cuts(setting)
    for place, cut in enumerate(every):
        yield _row(cut, STOCK_LEVELS[:1] if setting.quick else STOCK_LEVELS)
        setting.progress((place + 1) / len(every))
    for cut in left_out(setting):
        note = cut.trouble or f"not measured: {len(cut.training):,} messages, {SHORTEST:,} say something"
        yield Row(f"{cut.name}: bytes a message", "bytes", note=note, sound=not cut.trouble)


def _row(cut: Cut, levels: Sequence[int]) -> Row:
    baselines = dict(_weighed(make, cut) for make in BASELINES)
    stock = _stock(cut, levels)
    begin = process_time()
    chosen = choose(cut.training, sizes=(SMALL, cut.size), budget=ANY_COST)
    spent = 1e9 * (process_time() - begin) / sum(map(len, cut.training))
    codec = codec_of(chosen) if chosen is not None else Deflate()
    ours = weighed(codec, codec, cut.judging)
    how = f"{len(cut.training):,} messages train, the next {len(cut.judging):,} judge; {_described(chosen)}"
    how += f"; found in {spent:,.0f} ms of CPU for a megabyte of messages"
    beside = {OURS: ours, "raw": cut.raw, **baselines, **vcdiff_bytes(cut.judging), **stock}
    high = min(stock.values()) if stock else None
    return Row(f"{cut.name}: bytes a message", "bytes", ours, high=high, how=how, beside=beside)


def weighed(sender: Codec, receiver: Codec, messages: Sequence[bytes]) -> float:
    """Bytes a message, after every one of them came back as it was."""
    total = 0
    for message in messages:
        packed = sender.pack(message)
        if receiver.unpack(packed, _LIMIT) != message:
            raise AssertionError(f"{sender.name} does not give back what it was given")
        total += len(packed)
    return total / len(messages)


def _weighed(make: Callable[[int], Codec], cut: Cut) -> tuple[str, float]:
    sender, receiver = make(cut.largest), make(cut.largest)
    return sender.name, weighed(sender, receiver, cut.judging)


def _stock(cut: Cut, levels: Sequence[int]) -> dict[str, float]:
    """What a team gets that uses the libraries as they are, constant bytes not counted; nothing where they fail."""
    found: dict[str, float] = {}
    for level in levels:
        try:
            trained = zstandard.train_dictionary(cut.size, list(cut.training), level=level).as_bytes()
        except zstandard.ZstdError:
            return found
        codec = Zstd(trained, level, cut.largest)
        found[f"stock zstd {level}"] = weighed(codec, codec, cut.judging)
        if level == levels[0]:
            preset = PresetDeflate(trained, 9)
            found["stock zlib 9"] = weighed(preset, preset, cut.judging)
    return found


def _described(dictionary: Dictionary | None) -> str:
    if dictionary is None:
        return "no dictionary can be made, so deflate"
    size, sent = len(dictionary.content), cost(dictionary)
    return f"{dictionary.codec} {dictionary.level}, {size:,} bytes, {sent:,} to send"


BARS = [Bar("bytes a message", sizes)]
