"""Training of a dictionary on Spark, from messages of files, tables or a topic.

The sample depends on the location of each message, not on the number of tasks. It is sorted by time: candidates are
built from the earlier 70 % and measured on the later 30 %, each as a cell of a sweep. As in
`thinwire.dictionaries.choose`, the candidate within the CPU budget that packs the later messages smallest wins. Here
every segment length is tried with every size and codec. The final dictionary is built from the whole sample.

>>> rooms = [b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5}' % (n % 9, n % 7, n % 31) for n in range(400)]
>>> cells = candidate_cells(sum(map(len, rooms)), sizes=[1024], budget=0.2)
>>> len(cells), cells[0]["codec"], cells[-1]
(7, 'deflate', {'codec': 'zstd', 'level': 3, 'size': 1024, 'segment': 1024})
>>> plain, best = (TrialResult(**cell, **run_trial(rooms, **cell)) for cell in cells[:2])
>>> best.packed < plain.packed < 60, plain.content
(True, 0)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from thinwire.brokers.nats.blocking import open_source
from thinwire.dictionaries import Codec, Dictionary, Facts, codec_of
from thinwire.dictionaries.codecs import Deflate
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.dictionaries.policies.policy import SLOT
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
from thinwire.spark.action_progress import Progress, run_action
from thinwire.spark.jobs.training_messages import (
    Sample,
    add_null_time,
    collect_bindings,
    draw_sample,
    frame_bodies,
    load_dictionaries,
    load_messages,
    remove_properties,
)
from thinwire.spark.parameter_sweep import run_cells
from thinwire.topics.names import check_topic, log_of

DEFLATE = "deflate"
"""the candidate without a dictionary, for comparison"""


@dataclass(frozen=True)
class TrialResult:
    """Candidate and its figures on the held-out messages.

    packed: bytes per message, with the slot byte; saved: percentage of the plain bytes
    cpu: time to pack a message, relative to deflate in the same run
    content, travelling: bytes of the dictionary, and of its packed form
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
        """Name of the candidate in tables."""
        if self.codec == DEFLATE:
            return DEFLATE
        content = "latest messages" if self.segment == LATEST else f"segments of {self.segment}"
        return f"{self.codec} {self.level}, {self.size:,} bytes, {content}"


def candidate_cells(sample: int, sizes: Sequence[int], budget: float) -> list[dict[str, Any]]:
    """Return the candidates for a sample of `sample` bytes: deflate first, then all within the CPU budget."""
    fitting = sorted(size for size in sizes if SMALLEST <= size <= sample // ENOUGH)
    candidates = [
        {"codec": codec, "level": level, "size": size, "segment": segment}
        for (codec, level), spent in COSTS.items()
        if spent <= budget
        for size in fitting
        for segment in _segments(codec, size)
    ]
    return [{"codec": DEFLATE, "level": 6, "size": 0, "segment": 0}, *candidates]


def _segments(codec: str, size: int) -> list[int]:
    """Return the segment lengths to try, at most the size of the dictionary."""
    lengths = sorted({min(length, size) for length in MORE_SEGMENTS})
    return [*lengths, LATEST] if codec in PLAIN else lengths


def run_trial(messages: Sequence[bytes], codec: str, level: int, size: int, segment: int) -> dict[str, Any]:
    """Build a dictionary from the earlier messages and pack the later ones. Return no figures if none can be built."""
    learning = int(LEARNING * len(messages))
    earlier, later = messages[:learning], messages[learning:]
    if codec == DEFLATE:
        return _figures(Deflate(level), later, 0, 0)
    dictionary = build(earlier, TrainingMethod(codec, level, size, segment)) if learning >= FEWEST else None
    if dictionary is None:
        return {}
    return _figures(codec_of(dictionary), later, len(dictionary.content), cost(dictionary))


def build_final(messages: Sequence[bytes], chosen: TrialResult) -> Dictionary | None:
    """Return the dictionary built from all messages with the chosen method."""
    facts = Facts(len(messages), sum(map(len, messages)), chosen.saved)
    method = TrainingMethod(chosen.codec, chosen.level, chosen.size, chosen.segment)
    dictionary = build(messages, method) or build(messages[: int(LEARNING * len(messages))], method)
    return None if dictionary is None else replace(dictionary, facts=facts)


def _figures(codec: Codec, later: Sequence[bytes], content: int, travelling: int) -> dict[str, Any]:
    plain = sum(map(len, later))
    packed, seconds = _pack_all(codec, later)
    _, deflate_seconds = _pack_all(Deflate(6), later)
    return {
        "packed": packed / len(later),
        "saved": 100 * (1 - packed / plain),
        "cpu": seconds / max(deflate_seconds, 1e-9),
        "content": content,
        "travelling": travelling,
    }


def _pack_all(codec: Codec, messages: Sequence[bytes]) -> tuple[int, float]:
    """Return packed size and CPU time. The first call creates the compressor and is not measured."""
    codec.pack(messages[0])
    begin = time.thread_time()
    size = sum(len(codec.pack(message)) + SLOT for message in messages)
    return size, time.thread_time() - begin


MESSAGES, BYTES = 20_000, 4 << 20
"""limits of a sample; a larger one changes the result for 64 kB dictionaries by less than 1 %"""
BUDGET = 0.25
"""CPU time to pack a message, relative to deflate"""


@dataclass(frozen=True)
class TrialSpec:
    """Parameters of a training.

    sizes: sizes of dictionaries in bytes; a size above a tenth of the sample is left out
    budget: CPU time to pack a message, relative to deflate, as in `thinwire.dictionaries.choose`
    seed: seed of the sample; messages, bytes: limits of the sample
    """

    sizes: Sequence[int] = SIZES
    budget: float = BUDGET
    seed: int = 0
    messages: int = MESSAGES
    bytes: int = BYTES


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training.

    dictionary: built with the method of `chosen`; candidates: all candidates, deflate first
    sample: the messages for training and measuring
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
    """Train on files with one message per line, and on Parquet tables.

    column, time: columns of tables with the message and its time
    schema: of the messages; its confidential properties are removed before training
    """
    messages = load_messages(spark, paths, column=column, time=time)
    hidden = [p.name for p in schema if p.confidential] if schema is not None else []
    return _train(spark, remove_properties(messages, hidden), trials or TrialSpec(), progress)


def train_topic(
    spark: SparkSession,
    servers: str,
    topic: str,
    trials: TrialSpec | None = None,
    *,
    progress: Progress | None = None,
    **connection: Any,
) -> TrainingResult:
    """Train on the frame bodies of a topic log."""
    with open_source(servers, **connection) as source:
        if log_of(check_topic(topic)) not in source.logs():
            raise UnknownTopic("the broker has no log of it", topic=topic)
        options = {"servers": servers, "subscribe": topic, "columns": "frames", **connection}
        frames = spark.read.format("thinwire").options(**options).load()
        slots = run_action(spark, lambda: collect_bindings(frames), progress)
        known = load_dictionaries(source, slots.hashes)
    return _train(spark, add_null_time(frame_bodies(frames, topic, slots, known)), trials or TrialSpec(), progress)


def _train(spark: SparkSession, messages: DataFrame, trials: TrialSpec, progress: Progress | None) -> TrainingResult:
    draw = partial(draw_sample, messages, seed=trials.seed, most=trials.messages, size=trials.bytes)
    sample = run_action(spark, draw, progress)
    cells = candidate_cells(sum(map(len, sample.messages)), trials.sizes, trials.budget)
    _check(sample, len(cells) > 1, trials)
    results = run_cells(spark, partial(run_trial, sample.messages), cells, progress=progress)
    candidates = [TrialResult(**cell, **figures) for cell, figures in zip(cells, results, strict=True) if figures]
    with_dictionary = (result for result in candidates if result.codec != DEFLATE)
    chosen = min(with_dictionary, key=lambda result: left(result.segment, result.saved), default=None)
    dictionary = build_final(sample.messages, chosen) if chosen is not None else None
    if chosen is None or dictionary is None:
        raise JobFailed("the messages have too little in common for a dictionary", messages=len(sample.messages))
    return TrainingResult(dictionary, chosen, candidates, sample)


def _check(sample: Sample, any_fits: bool, trials: TrialSpec) -> None:
    count, size = len(sample.messages), sum(map(len, sample.messages))
    if count < 2 * FEWEST:
        raise ConfigError("too few messages to train on", messages=count, needed=2 * FEWEST)
    if not any_fits:
        smallest = min(trials.sizes, default=0)
        detail = f"a dictionary needs {ENOUGH} times its size in messages: choose a smaller one with --size"
        raise ConfigError(detail, size=smallest, bytes=size, largest=size // ENOUGH)
