"""A dictionary from the past, on Spark: messages of files, tables or a topic in, the bytes worth sharing out.

A sample is drawn by the place of every message, so it is the same on one core and on a hundred. It is put in the order
in which its messages were; the earlier 70 % train, the later 30 % judge, every way to build a dictionary as a cell of a
sweep. What is kept is built from all of it in the way that was found best.

Trials of a training: ways to build a dictionary, each built of the earlier messages and judged on the later ones.

As in `thinwire.dictionaries.choose`, of the ways that the CPU budget allows the one wins that packs the later messages
smallest. With a cluster at hand every length of a segment is tried with every size and codec, where `choose` settles it
last and for the best of them alone; the dictionary is then built from all messages.

>>> rooms = [b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5}' % (n % 9, n % 7, n % 31) for n in range(400)]
>>> cells = cells_of(sum(map(len, rooms)), sizes=[1024], budget=0.2)
>>> len(cells), cells[0]["codec"], cells[-1]
(7, 'deflate', {'codec': 'zstd', 'level': 3, 'size': 1024, 'segment': 1024})
>>> plain, best = TrialResult.of(cells[0], trial(rooms, **cells[0])), TrialResult.of(cells[1], trial(rooms, **cells[1]))
>>> best.packed < plain.packed < 60, plain.content
(True, 0)
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from thinwire.brokers.nats.blocking import open_source
from thinwire.dictionaries import Codec, Dictionary, Facts, codec_of
from thinwire.dictionaries.byte_account import SLOT
from thinwire.dictionaries.codecs import Deflate
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.dictionaries.training import (
    COSTS,
    ENOUGH,
    FEWEST,
    LATEST,
    LEARNING,
    MORE_SEGMENTS,
    PLAIN,
    SIZES,
    SMALLEST,
    TrainingMethod,
    build,
    left,
)
from thinwire.errors import ConfigError, JobFailed, UnknownTopic
from thinwire.schema import Schema
from thinwire.spark.action_progress import Progress, watched
from thinwire.spark.jobs.training_messages import (
    Sample,
    bindings_of,
    bodies_of,
    known_of,
    messages_in,
    placed,
    sampled,
    without,
)
from thinwire.spark.parameter_sweep import sweep
from thinwire.topics.names import check_topic, log_of

DEFLATE = "deflate"
"""the candidate without a dictionary, which the others are compared with"""


@dataclass(frozen=True)
class TrialResult:
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
    def way(self) -> TrainingMethod:
        """How to build it."""
        return TrainingMethod(self.codec, self.level, self.size, self.segment)

    @classmethod
    def of(cls, cell: Mapping[str, Any], figures: Mapping[str, Any]) -> TrialResult:
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
    made = build(earlier, TrainingMethod(codec, level, size, segment)) if learning >= FEWEST else None
    return {} if made is None else _figures(codec_of(made), later, len(made.content), cost(made))


def best_of(candidates: Sequence[TrialResult]) -> TrialResult | None:
    """The one that leaves least, of equals the first; None where there is none with a dictionary."""
    dictionaries = (one for one in candidates if one.codec != DEFLATE)
    return min(dictionaries, key=lambda one: left(one.segment, one.saved), default=None)


def built(messages: Sequence[bytes], chosen: TrialResult) -> Dictionary | None:
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


MESSAGES, BYTES = 20_000, 4 << 20
"""of a sample, at most: more of both changes a dictionary of 64 kB by less than a hundredth"""
BUDGET = 0.25
"""CPU time to pack a message, as a multiple of deflate's"""


@dataclass(frozen=True)
class TrialSpec:
    """What is to be tried.

    sizes: of dictionaries, in bytes; those of which the sample is not ten times as large are left out
    budget: CPU time to pack a message, as a multiple of deflate's, as in `thinwire.dictionaries.choose`
    seed: of the sample; messages, bytes: what the sample has at most
    """

    sizes: Sequence[int] = SIZES
    budget: float = BUDGET
    seed: int = 0
    messages: int = MESSAGES
    bytes: int = BYTES


@dataclass(frozen=True)
class TrainingResult:
    """What a training came to.

    dictionary: the best one; chosen: the candidate it was built as; candidates: all of them, deflate first
    sample: the messages it was trained and judged on
    """

    dictionary: Dictionary
    chosen: TrialResult
    candidates: Sequence[TrialResult]
    sample: Sample


def train(
    spark: SparkSession,
    paths: Sequence[str],
    trials: TrialSpec | None = None,
    *,
    column: str | None = None,
    time: str | None = None,
    schema: Schema | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Train on files of one message a line, and on Parquet tables.

    column, time: of tables, where a message stands and what tells when it was
    schema: of the messages, where they have one: its confidential properties are taken out before anything is learnt
    """
    messages = messages_in(spark, paths, column=column, time=time)
    hidden = [p.name for p in schema if p.confidential] if schema is not None else []
    return _trained(spark, without(messages, hidden), trials or TrialSpec(), progress)


def train_topic(
    spark: SparkSession,
    servers: str,
    topic: str,
    trials: TrialSpec | None = None,
    *,
    progress: Progress | None = None,
    **connection: Any,
) -> TrainingResult:
    """Train on what the log of a topic has: the bodies of its frames, as its publishers pack them."""
    with open_source(servers, **connection) as source:
        if log_of(check_topic(topic)) not in source.logs():
            raise UnknownTopic("the broker has no log of it", topic=topic)
        options = {"servers": servers, "subscribe": topic, "columns": "frames", **connection}
        frames = spark.read.format("thinwire").options(**options).load()
        slots = watched(spark, lambda: bindings_of(frames), progress)
        known = known_of(source, slots.hashes)
    return _trained(spark, placed(bodies_of(frames, topic, slots, known)), trials or TrialSpec(), progress)


def _trained(spark: SparkSession, messages: DataFrame, trials: TrialSpec, progress: Progress | None) -> TrainingResult:
    draw = partial(sampled, messages, seed=trials.seed, most=trials.messages, size=trials.bytes)
    sample = watched(spark, draw, progress)
    cells = cells_of(sum(map(len, sample.messages)), trials.sizes, trials.budget)
    _check(sample, len(cells) > 1, trials)
    results = sweep(spark, partial(trial, sample.messages), cells, progress=progress)
    for result in results:
        if result.figures is None:
            raise JobFailed(f"a trial failed: {result.error}", **result.cell)
    candidates = [TrialResult.of(result.cell, result.figures) for result in results if result.figures]
    chosen = best_of(candidates)
    dictionary = built(sample.messages, chosen) if chosen is not None else None
    if chosen is None or dictionary is None:
        raise JobFailed("the messages have too little in common for a dictionary", messages=len(sample.messages))
    return TrainingResult(dictionary, chosen, candidates, sample)


def _check(sample: Sample, any_fits: bool, trials: TrialSpec) -> None:
    count, size = len(sample.messages), sum(map(len, sample.messages))
    if count < 2 * FEWEST:
        raise ConfigError("too few messages to train on: name more", messages=count, needed=2 * FEWEST)
    if not any_fits:
        smallest = min(trials.sizes, default=0)
        detail = f"a dictionary needs {ENOUGH} bytes of messages for each of its own: ask for a smaller one with --size"
        raise ConfigError(detail, size=smallest, bytes=size, largest=size // ENOUGH)
