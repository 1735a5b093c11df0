"""Training: from messages of the past to the bytes worth sharing.

What is measured is always later than what was learned from: the first 70 % of the messages train, the last 30 % judge,
and what is kept is then built from all of them in the way that was found best.

Two dictionaries that differ in nothing but the length of their segments, or in some of the messages they were built
from, pack a tenth better or worse, as chance will have it. So where bytes count (`choose`) several are built from all
messages, and the one is kept that packs the later of them smallest. All of them have seen these, and equally little of
them fits into any: the order in which they come out is that on the next messages, which no other judge knows as well.

>>> rooms = [b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5}' % (n % 9, n % 7, n % 31) for n in range(400)]
>>> trained = train(rooms, size=1024)
>>> trained.codec, trained.facts.messages, trained.facts.ratio > 50
('zstd', 400, True)
>>> train(rooms[:3], size=1024) is None
True

Building the content of a dictionary: which bytes of the sample are worth sharing.

zstd's trainer (fastcover) fills a dictionary with whole segments of the sample, those with the most frequent substrings
first. How long a segment is decides most: short ones cut messages into pieces, long ones keep what stands together
together. Its own search for the length costs about six times as much as trying one at the usual levels, much more at
the slow ones, and what it finds is within a few per cent of the best of three, to either side.

The same content serves zlib, without the tables that zstd puts in front; and for zlib the latest messages as they are
do as well on streams that hardly repeat beyond their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""lengths of a segment that are tried"""
MORE_SEGMENTS = (256, USUAL_SEGMENT, 1024, LONG_SEGMENT, 4096)
"""lengths that are tried where nothing but bytes counts"""
LATEST, SEARCHED = 0, -1
"""instead of a length: the latest messages as they are, and the length that zstd's own search finds"""
SMALLEST = 256
"""bytes of a dictionary, and of a sample, below which zstd makes none that is worth the name"""
_COUNTED = 8
"""bytes of a substring that is counted"""
_TABLE = 16
"""as a power of two, places to count them in; zstd's usual 20 takes longer to clear than a short sample to read"""
PLAIN = ("zlib", "brief")
"""codecs that share bytes as they are, without tables"""
_LEAST_LEVEL = 3
"""of zstd, at which the tables are made: below it they cost no less"""
_REPEATED_OFFSETS = b"\x01\0\0\0\x04\0\0\0\x08\0\0\0"
"""the last twelve bytes of the tables in front of the content"""


@dataclass(frozen=True)
class TrainingMethod:
    """One way to build a dictionary.

    segment: bytes of a segment, `LATEST` or `SEARCHED`
    haste: of zstd's trainer; at 2 it makes its tables from half of the sample, for two thirds of the time
    """

    codec: str
    level: int
    size: int
    segment: int
    haste: int = 1


def build(messages: Sequence[bytes], way: TrainingMethod) -> Dictionary | None:
    """The dictionary of these messages; None where they are too few, too short or too equal for it."""
    if sum(map(len, messages)) < SMALLEST:
        return None
    content = _latest(messages, way.size) if way.segment == LATEST else _covered(messages, way)
    if not content:
        return None
    return Dictionary(content, way.codec, way.level, min(max(map(len, messages)), MAX_MESSAGE))


def recast(dictionary: Dictionary, codec: str, level: int) -> Dictionary:
    """The content of a dictionary for zstd, for another codec; tables are left out where nobody reads them."""
    content = _without_tables(dictionary.content)[-REACH:] if codec in PLAIN else dictionary.content
    return replace(dictionary, content=content, codec=codec, level=level)


def _latest(messages: Sequence[bytes], size: int) -> bytes:
    size = min(size, REACH)
    kept, at = 0, len(messages)
    while at and kept < size:
        at -= 1
        kept += len(messages[at])
    return b"".join(messages[at:])[-size:]


def _covered(messages: Sequence[bytes], way: TrainingMethod) -> bytes:
    level = max(way.level, _LEAST_LEVEL) if way.codec not in PLAIN else _LEAST_LEVEL
    settled = {"k": min(way.segment, way.size), "d": _COUNTED, "f": _TABLE, "accel": way.haste}
    try:
        trained = zstandard.train_dictionary(
            way.size, list(messages), level=level, **(settled if way.segment != SEARCHED else {})
        ).as_bytes()
    except zstandard.ZstdError:
        return b""
    return trained if way.codec not in PLAIN else _without_tables(trained)[-REACH:]


def _without_tables(trained: bytes) -> bytes:
    """The segments alone, the most valuable last, as zlib likes them."""
    at = trained.find(_REPEATED_OFFSETS, 0, 1024)
    return trained[at + len(_REPEATED_OFFSETS) :] if at >= 0 else trained


LEARNING = 0.7
"""share of the messages, from the earliest on, that train while the rest judges"""
JUDGES = 800
"""messages of the judging part that are looked at, spread evenly over it"""
FEWEST = 8
"""messages; fewer say nothing about the next"""
ENOUGH = 10
"""bytes of sample for every byte of a dictionary: with fewer it learns the sample by heart"""
WEIGHTS = {SEARCHED: 0.99, LATEST: 1.05}
"""how many times over the bytes count that a way leaves. What zstd's own search finds stays where another length is not
clearly better; the latest messages serve those that follow at once, which judge, better than those that come later"""
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
"""codec and level -> CPU time to pack a message as a multiple of deflate's. Measured once and written down, so that the
same messages give the same choice on every machine"""


def train(messages: Sequence[bytes], size: int, *, codec: str = "zstd", level: int = 3) -> Dictionary | None:
    """A dictionary of at most `size` bytes; None where there are too few messages, or they are too small."""
    return _best(messages, [TrainingMethod(codec, level, size, segment) for segment in SEGMENTS])


def choose(messages: Sequence[bytes], *, sizes: Sequence[int] = SIZES, budget: float = 0.25) -> Dictionary | None:
    """The dictionary that packs the later messages smallest; None where none can be made.

    sizes: to try; those that the sample is not `ENOUGH` times as large as are left out
    budget: CPU time to pack a message, as a multiple of deflate's: at 0.25 the fast levels of zstd are tried, from 1 on
        thorough ones and zlib, from 10 on everything
    """
    fitting = sorted(size for size in sizes if SMALLEST <= size <= sum(map(len, messages)) // ENOUGH)
    if not fitting:
        return None
    found = _judged(messages, list(_ways(fitting, budget)))
    if found is None:
        return None
    way, trial, saved = found
    kept = build(messages, way) if way.segment == LATEST else _kept(messages, way)
    return replace(kept or trial, facts=Facts(len(messages), sum(map(len, messages)), saved))


def ratio(dictionary: Dictionary, messages: Sequence[bytes]) -> float:
    """Bytes saved on these messages in per cent, with the byte for the slot; at most `JUDGES` of them are looked at."""
    judged = messages[:: -(-len(messages) // JUDGES)] if messages else []
    codec = codec_of(dictionary)
    before = sum(map(len, judged))
    after = sum(len(codec.pack(message)) + 1 for message in judged)
    return 100 * (1 - after / before) if before else 0.0


def left(segment: int, saved: float) -> float:
    """What to compare ways by: the share of bytes that is left, in per cent, with the weight of its segments.

    >>> left(512, 80.0), left(LATEST, 80.0)
    (20.0, 21.0)
    """
    return WEIGHTS.get(segment, 1.0) * (100 - saved)


def without_confidential(events: Iterable[Mapping[str, Any]], schema: Schema) -> Iterator[dict[str, Any]]:
    """The events without what never leaves its publisher: what is written from these may be trained on."""
    hidden = {one.name for one in schema if one.confidential}
    return ({name: value for name, value in event.items() if name not in hidden} for event in events)


def _ways(sizes: Sequence[int], budget: float) -> Iterator[TrainingMethod]:
    """Every codec, level and size within the budget; which segments is settled later, for the best alone."""
    for (codec, level), cost in COSTS.items():
        if cost <= budget:
            segments = (USUAL_SEGMENT, LONG_SEGMENT, LATEST) if codec in PLAIN else (USUAL_SEGMENT, LONG_SEGMENT)
            yield from (TrainingMethod(codec, level, size, segment) for size in sizes for segment in segments)


def _kept(messages: Sequence[bytes], way: TrainingMethod) -> Dictionary | None:
    """Of dictionaries of all messages, with segments of several lengths, the one that packs the later ones smallest."""
    later = messages[int(LEARNING * len(messages)) :]
    built = ((segment, build(messages, replace(way, segment=segment))) for segment in (SEARCHED, *MORE_SEGMENTS))
    judged = [(left(segment, ratio(made, later)), made) for segment, made in built if made is not None]
    return min(judged, key=lambda one: one[0], default=(0.0, None))[1]


def _best(messages: Sequence[bytes], ways: Sequence[TrainingMethod]) -> Dictionary | None:
    """The best way, then built from all messages; where that cannot be done, what was judged."""
    found = _judged(messages, ways)
    if found is None:
        return None
    way, trial, saved = found
    facts = Facts(len(messages), sum(map(len, messages)), saved)
    return replace(build(messages, way) or trial, facts=facts)


def _judged(
    messages: Sequence[bytes], ways: Sequence[TrainingMethod]
) -> tuple[TrainingMethod, Dictionary, float] | None:
    """The way whose dictionary of the earlier messages saves most on the later ones, with both."""
    learning = int(LEARNING * len(messages))
    if learning < FEWEST:
        return None
    trials = ((way, build(messages[:learning], way)) for way in ways)
    judged = [(way, trial, ratio(trial, messages[learning:])) for way, trial in trials if trial is not None]
    return min(judged, key=lambda one: left(one[0].segment, one[2]), default=None)
