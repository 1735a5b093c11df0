"""Trials of a training: ways to build a dictionary, each built of the earlier messages and judged on the later ones.

As in `thinwire.dictionaries.choose`, of the ways that the CPU budget allows the one wins that packs the later messages
smallest. With a cluster at hand every length of a segment is tried with every size and codec, where `choose` settles it
last and for the best of them alone; the dictionary is then built from all messages.

>>> rooms = [b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5}' % (n % 9, n % 7, n % 31) for n in range(400)]
>>> cells = cells_of(sum(map(len, rooms)), sizes=[1024], budget=0.2)
>>> len(cells), cells[0]["codec"], cells[-1]
(7, 'deflate', {'codec': 'zstd', 'level': 3, 'size': 1024, 'segment': 1024})
>>> plain, best = Candidate.of(cells[0], trial(rooms, **cells[0])), Candidate.of(cells[1], trial(rooms, **cells[1]))
>>> best.packed < plain.packed < 60, plain.content
(True, 0)
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thinwire.dictionaries import Codec, Dictionary, Facts, codec_of
from thinwire.dictionaries.byte_account import SLOT
from thinwire.dictionaries.codecs import Deflate
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.dictionaries.training import COSTS, ENOUGH, FEWEST, LEARNING, left
from thinwire.dictionaries.training_building import LATEST, MORE_SEGMENTS, PLAIN, SMALLEST, Way, build

DEFLATE = "deflate"
"""the candidate without a dictionary, which the others are compared with"""


@dataclass(frozen=True)
class Candidate:
    """What a way came to on the messages held out.

    packed: bytes a message, with the one that names the dictionary; saved: of the plain bytes, in per cent
    cpu: time to pack a message, as a multiple of deflate's in the same run
    content, travelling: bytes of the dictionary, and of the form in which it is sent to everybody
    """

    codec: str
    level: int
    size: int
    segment: int
    packed: float
    saved: float
    cpu: float
    content: int
    travelling: int

    @property
    def name(self) -> str:
        """What tables call it."""
        if self.codec == DEFLATE:
            return DEFLATE
        built = "latest messages" if self.segment == LATEST else f"segments of {self.segment}"
        return f"{self.codec} {self.level}, {self.size:,} bytes, {built}"

    @property
    def way(self) -> Way:
        """How to build it."""
        return Way(self.codec, self.level, self.size, self.segment)

    @classmethod
    def of(cls, cell: Mapping[str, Any], figures: Mapping[str, Any]) -> Candidate:
        """The candidate of a cell and what it came to."""
        return cls(**cell, **figures)


def cells_of(sample: int, sizes: Sequence[int], budget: float) -> list[dict[str, Any]]:
    """The ways to try on a sample of so many bytes: deflate first, then every one within the budget."""
    fitting = sorted(size for size in sizes if SMALLEST <= size <= sample // ENOUGH)
    ways = [
        {"codec": codec, "level": level, "size": size, "segment": segment}
        for (codec, level), spent in COSTS.items()
        if spent <= budget
        for size in fitting
        for segment in _segments(codec, size)
    ]
    return [{"codec": DEFLATE, "level": 6, "size": 0, "segment": 0}, *ways]


def _segments(codec: str, size: int) -> list[int]:
    """The lengths of segments to try; none is longer than the dictionary."""
    lengths = sorted({min(length, size) for length in MORE_SEGMENTS})
    return [*lengths, LATEST] if codec in PLAIN else lengths


def trial(messages: Sequence[bytes], codec: str, level: int, size: int, segment: int) -> dict[str, Any]:
    """Build a dictionary of the earlier messages, pack the later ones with it; no figures where none can be built."""
    learning = int(LEARNING * len(messages))
    earlier, later = messages[:learning], messages[learning:]
    if codec == DEFLATE:
        return _figures(Deflate(level), later, 0, 0)
    made = build(earlier, Way(codec, level, size, segment)) if learning >= FEWEST else None
    return {} if made is None else _figures(codec_of(made), later, len(made.content), cost(made))


def best_of(candidates: Sequence[Candidate]) -> Candidate | None:
    """The one that leaves least, of equals the first; None where there is none with a dictionary."""
    dictionaries = (one for one in candidates if one.codec != DEFLATE)
    return min(dictionaries, key=lambda one: left(one.segment, one.saved), default=None)


def built(messages: Sequence[bytes], chosen: Candidate) -> Dictionary | None:
    """The dictionary of all messages, built in the way that was found best, with what that gave."""
    facts = Facts(len(messages), sum(map(len, messages)), chosen.saved)
    learning = int(LEARNING * len(messages))
    made = build(messages, chosen.way) or build(messages[:learning], chosen.way)
    return None if made is None else replace(made, facts=facts)


def _figures(codec: Codec, later: Sequence[bytes], content: int, travelling: int) -> dict[str, Any]:
    plain = sum(map(len, later))
    packed, spent = _packed(codec, later)
    _, usual = _packed(Deflate(6), later)
    return {
        "packed": packed / len(later),
        "saved": 100 * (1 - packed / plain),
        "cpu": spent / max(usual, 1e-9),
        "content": content,
        "travelling": travelling,
    }


def _packed(codec: Codec, messages: Sequence[bytes]) -> tuple[int, float]:
    """The bytes of the messages, and the processor time it took; machines are made before it counts."""
    codec.pack(messages[0])
    begin = time.thread_time()
    size = sum(len(codec.pack(message)) + SLOT for message in messages)
    return size, time.thread_time() - begin
