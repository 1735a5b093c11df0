"""Building the content of a dictionary: which bytes of the sample are worth sharing.

zstd's trainer (fastcover) fills a dictionary with whole segments of the sample, those with the most frequent substrings
first. How long a segment is decides most: short ones cut messages into pieces, long ones keep what stands together
together. Its own search for the length costs about six times as much as trying one at the usual levels, much more at
the slow ones, and what it finds is within a few per cent of the best of three, to either side.

The same content serves zlib, without the tables that zstd puts in front; and for zlib the latest messages as they are
do as well on streams that hardly repeat beyond their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import zstandard

from thinwire.dictionaries.codecs.deflate import REACH
from thinwire.dictionaries.dictionary import MAX_MESSAGE, Dictionary

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
class Way:
    """One way to build a dictionary.

    segment: bytes of a segment, `LATEST` or `SEARCHED`
    haste: of zstd's trainer; at 2 it makes its tables from half of the sample, for two thirds of the time
    """

    codec: str
    level: int
    size: int
    segment: int
    haste: int = 1


def build(messages: Sequence[bytes], way: Way) -> Dictionary | None:
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


def _covered(messages: Sequence[bytes], way: Way) -> bytes:
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
