"""Training of dictionaries from recent messages.

The first 70 % of the messages train a candidate and the last 30 % evaluate it. The result is then built from all
messages with the best method. Dictionaries that differ only in the length of their segments, or in some of their
messages, pack up to a tenth better or worse, by chance. Therefore `choose` builds several from all messages and returns
the one that packs the later messages smallest. All of them have seen these messages, so none has an advantage.

The content comes from the trainer of zstd (fastcover), which copies whole segments of the sample, those with the most
frequent substrings first. The length of the segments matters most: short ones cut messages into pieces. The trainer's
own search for the length takes six times as long as one attempt and is within a few per cent of the best of three. The
same content serves zlib, without the tables that zstd puts in front. For zlib the latest messages are as good on
streams that repeat little beyond their neighbours.

>>> rooms = [b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5}' % (n % 9, n % 7, n % 31) for n in range(400)]
>>> trained = train(rooms, size=1024)
>>> trained.codec, trained.facts.messages, trained.facts.ratio > 50
('zstd', 400, True)
>>> train(rooms[:3], size=1024) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import zstandard

from thinwire.dictionaries.codecs import codec_of
from thinwire.dictionaries.codecs.deflate import REACH
from thinwire.dictionaries.dictionary import MAX_MESSAGE, Dictionary, Facts
from thinwire.schema import Schema

USUAL_SEGMENT = 512
LONG_SEGMENT = 2048
SEGMENTS = (256, USUAL_SEGMENT, LONG_SEGMENT)
"""lengths of segments to try"""
MORE_SEGMENTS = (256, USUAL_SEGMENT, 1024, LONG_SEGMENT, 4096)
"""lengths to try if CPU time does not matter"""
LATEST, SEARCHED = 0, -1
"""instead of a length: the latest messages unchanged, and the length that zstd's own search finds"""
SMALLEST = 256
"""bytes of a dictionary, and of a sample; zstd makes no useful dictionary below"""
_SUBSTRING = 8
"""bytes of the substrings that the trainer counts"""
_TABLE_BITS = 16
"""logarithm of the trainer's count table; with the default of 20, clearing it takes longer than reading a short
sample"""
PLAIN = ("zlib", "brief")
"""codecs that use the content without tables"""
_LEAST_LEVEL = 3
"""zstd level for the tables; lower levels cost no less"""
_REPEATED_OFFSETS = b"\x01\0\0\0\x04\0\0\0\x08\0\0\0"
"""the last twelve bytes of the tables in front of the content"""

LEARNING = 0.7
"""share of the messages, earliest first, that train; the rest evaluates"""
JUDGES = 800
"""messages used for an evaluation, spread evenly"""
FEWEST = 8
"""messages for training, at least"""
ENOUGH = 10
"""bytes of sample per byte of a dictionary; with less, the dictionary overfits"""
WEIGHTS = {SEARCHED: 0.99, LATEST: 1.05}
"""factor on the remaining bytes of a method: the length from zstd's search is kept unless another is clearly better;
the latest messages serve the messages right after them, which evaluate, better than later ones"""
SIZES = (4096, 16384, 65536)

COSTS: dict[tuple[str, int], float] = {
    ("zstd", 1): 0.15,
    ("zstd", 3): 0.2,
    ("zstd", 5): 0.3,
    ("dense", 9): 0.8,
    ("dense", 12): 1.0,
    ("dense", 19): 10.0,
    ("brief", 6): 1.0,
    ("brief", 9): 2.0,
}
"""codec and level -> CPU time to pack a message as a multiple of deflate's. Constants, so that the same messages give
the same choice on every machine"""


@dataclass(frozen=True)
class TrainingMethod:
    """Parameters of a dictionary.

    segment: bytes of a segment, `LATEST` or `SEARCHED`
    acceleration: of zstd's trainer; at 2 it makes its tables from half of the sample, in two thirds of the time
    """

    codec: str
    level: int
    size: int
    segment: int
    acceleration: int = 1


Builder = Callable[[Sequence[bytes], TrainingMethod], Dictionary | None]


def train(messages: Sequence[bytes], size: int, *, codec: str = "zstd", level: int = 3) -> Dictionary | None:
    """Return a dictionary of at most `size` bytes; None if the messages are too few or too small."""
    return _train_best(messages, (TrainingMethod(codec, level, size, segment) for segment in SEGMENTS), build)


def choose(messages: Sequence[bytes], *, sizes: Sequence[int] = SIZES, budget: float = 0.25) -> Dictionary | None:
    """Return the dictionary that packs the later messages smallest; None if none can be made.

    sizes: sizes to try, as far as the sample is `ENOUGH` times as large
    budget: CPU time to pack a message as a multiple of deflate's; 0.25 allows fast levels of zstd, 1 dense levels and
        zlib, 10 all
    """
    fitting = sorted(size for size in sizes if SMALLEST <= size <= sum(map(len, messages)) // ENOUGH)
    return _train_best(messages, _methods(fitting, budget), _best_of_all)


def build(messages: Sequence[bytes], method: TrainingMethod) -> Dictionary | None:
    """Return the dictionary of these messages; None if they are too few, too short or too similar."""
    if sum(map(len, messages)) < SMALLEST:
        return None
    if method.segment == LATEST:
        content = b"".join(messages)[-min(method.size, REACH) :]
    else:
        content = _train_segments(messages, method)
    if not content:
        return None
    return Dictionary(content, method.codec, method.level, min(max(map(len, messages)), MAX_MESSAGE))


def recast(dictionary: Dictionary, codec: str, level: int) -> Dictionary:
    """Return the content of a zstd dictionary for another codec; without tables if that codec does not read them."""
    content = _without_tables(dictionary.content)[-REACH:] if codec in PLAIN else dictionary.content
    return replace(dictionary, content=content, codec=codec, level=level)


def ratio(dictionary: Dictionary, messages: Sequence[bytes]) -> float:
    """Return the per cent of bytes saved, including the slot byte; evaluates at most `JUDGES` messages."""
    evaluated = messages[:: -(-len(messages) // JUDGES)] if messages else []
    codec = codec_of(dictionary)
    before = sum(map(len, evaluated))
    after = sum(len(codec.pack(message)) + 1 for message in evaluated)
    return 100 * (1 - after / before) if before else 0.0


def left(segment: int, saved: float) -> float:
    """Return the per cent of bytes left with the weight of the segments; methods are compared by it.

    >>> left(512, 80.0), left(LATEST, 80.0)
    (20.0, 21.0)
    """
    return WEIGHTS.get(segment, 1.0) * (100 - saved)


def without_confidential(events: Iterable[Mapping[str, Any]], schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield the events without confidential properties, so that a dictionary does not contain their values."""
    hidden = {p.name for p in schema if p.confidential}
    return ({name: value for name, value in event.items() if name not in hidden} for event in events)


def _train_segments(messages: Sequence[bytes], method: TrainingMethod) -> bytes:
    level = max(method.level, _LEAST_LEVEL) if method.codec not in PLAIN else _LEAST_LEVEL
    segment = min(method.segment, method.size)
    options = {"k": segment, "d": _SUBSTRING, "f": _TABLE_BITS, "accel": method.acceleration}
    if method.segment == SEARCHED:
        options = {}
    try:
        trained = zstandard.train_dictionary(method.size, list(messages), level=level, **options).as_bytes()
    except zstandard.ZstdError:
        return b""
    return trained if method.codec not in PLAIN else _without_tables(trained)[-REACH:]


def _without_tables(trained: bytes) -> bytes:
    """Return the segments alone; the most valuable are last, as zlib requires."""
    at = trained.find(_REPEATED_OFFSETS, 0, 1024)
    return trained[at + len(_REPEATED_OFFSETS) :] if at >= 0 else trained


def _methods(sizes: Sequence[int], budget: float) -> Iterator[TrainingMethod]:
    """Yield every codec, level and size within the budget with few segments; the best one is refined later."""
    for (codec, level), cost in COSTS.items():
        if cost <= budget:
            segments = (USUAL_SEGMENT, LONG_SEGMENT, LATEST) if codec in PLAIN else (USUAL_SEGMENT, LONG_SEGMENT)
            yield from (TrainingMethod(codec, level, size, segment) for size in sizes for segment in segments)


def _train_best(messages: Sequence[bytes], methods: Iterable[TrainingMethod], rebuild: Builder) -> Dictionary | None:
    """Find the method whose dictionary of the earlier messages saves most on the later ones; rebuild it from all."""
    learning = int(LEARNING * len(messages))
    if learning < FEWEST:
        return None
    trials = ((method, build(messages[:learning], method)) for method in methods)
    rated = [(method, trial, ratio(trial, messages[learning:])) for method, trial in trials if trial is not None]
    if not rated:
        return None
    method, trial, saved = min(rated, key=lambda row: left(row[0].segment, row[2]))
    return replace(rebuild(messages, method) or trial, facts=Facts(len(messages), sum(map(len, messages)), saved))


def _best_of_all(messages: Sequence[bytes], method: TrainingMethod) -> Dictionary | None:
    """Return the dictionary of all messages whose segment length packs the later messages smallest."""
    if method.segment == LATEST:
        return build(messages, method)
    later = messages[int(LEARNING * len(messages)) :]
    built = ((segment, build(messages, replace(method, segment=segment))) for segment in (SEARCHED, *MORE_SEGMENTS))
    rated = [(left(segment, ratio(found, later)), found) for segment, found in built if found is not None]
    return min(rated, key=lambda row: row[0], default=(0.0, None))[1]
