"""A dictionary from the past, on Spark: messages of files, tables or a topic in, the bytes worth sharing out.

A sample is drawn by the place of every message, so it is the same on one core and on a hundred. It is put in the order
in which its messages were; the earlier 70 % train, the later 30 % judge, every way to build a dictionary as a cell of a
sweep. What is kept is built from all of it in the way that was found best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from thinwire.brokers.nats.blocking import open_source
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.training import ENOUGH, FEWEST, SIZES
from thinwire.errors import ConfigError, JobFailed, UnknownTopic
from thinwire.schema import Schema
from thinwire.spark.action_progress import Progress, watched
from thinwire.spark.jobs.train_train_trials import Candidate, best_of, built, cells_of, trial
from thinwire.spark.jobs.training_messages import bindings_of, bodies_of, known_of
from thinwire.spark.jobs.training_messages_train_reading import Sample, messages_in, placed, sampled, without
from thinwire.spark.parameter_sweep import sweep
from thinwire.topics.names import check_topic, log_of

MESSAGES, BYTES = 20_000, 4 << 20
"""of a sample, at most: more of both changes a dictionary of 64 kB by less than a hundredth"""
BUDGET = 0.25
"""CPU time to pack a message, as a multiple of deflate's"""


@dataclass(frozen=True)
class Trial:
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
class Trained:
    """What a training came to.

    dictionary: the best one; chosen: the candidate it was built as; candidates: all of them, deflate first
    sample: the messages it was trained and judged on
    """

    dictionary: Dictionary
    chosen: Candidate
    candidates: Sequence[Candidate]
    sample: Sample


def train(
    spark: SparkSession,
    paths: Sequence[str],
    trials: Trial | None = None,
    *,
    column: str | None = None,
    time: str | None = None,
    schema: Schema | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train on files of one message a line, and on Parquet tables.

    column, time: of tables, where a message stands and what tells when it was
    schema: of the messages, where they have one: its confidential properties are taken out before anything is learnt
    """
    messages = messages_in(spark, paths, column=column, time=time)
    hidden = [p.name for p in schema if p.confidential] if schema is not None else []
    return _trained(spark, without(messages, hidden), trials or Trial(), progress)


def train_topic(
    spark: SparkSession,
    servers: str,
    topic: str,
    trials: Trial | None = None,
    *,
    progress: Progress | None = None,
    **connection: Any,
) -> Trained:
    """Train on what the log of a topic has: the bodies of its frames, as its publishers pack them."""
    with open_source(servers, **connection) as source:
        if log_of(check_topic(topic)) not in source.logs():
            raise UnknownTopic("the broker has no log of it", topic=topic)
        options = {"servers": servers, "subscribe": topic, "columns": "frames", **connection}
        frames = spark.read.format("thinwire").options(**options).load()
        slots = watched(spark, lambda: bindings_of(frames), progress)
        known = known_of(source, slots.hashes)
    return _trained(spark, placed(bodies_of(frames, topic, slots, known)), trials or Trial(), progress)


def _trained(spark: SparkSession, messages: DataFrame, trials: Trial, progress: Progress | None) -> Trained:
    draw = partial(sampled, messages, seed=trials.seed, most=trials.messages, size=trials.bytes)
    sample = watched(spark, draw, progress)
    cells = cells_of(sum(map(len, sample.messages)), trials.sizes, trials.budget)
    _check(sample, len(cells) > 1, trials)
    results = sweep(spark, partial(trial, sample.messages), cells, progress=progress)
    for result in results:
        if result.figures is None:
            raise JobFailed(f"a trial failed: {result.error}", **result.cell)
    candidates = [Candidate.of(result.cell, result.figures) for result in results if result.figures]
    chosen = best_of(candidates)
    dictionary = built(sample.messages, chosen) if chosen is not None else None
    if chosen is None or dictionary is None:
        raise JobFailed("the messages have too little in common for a dictionary", messages=len(sample.messages))
    return Trained(dictionary, chosen, candidates, sample)


def _check(sample: Sample, any_fits: bool, trials: Trial) -> None:
    count, size = len(sample.messages), sum(map(len, sample.messages))
    if count < 2 * FEWEST:
        raise ConfigError("too few messages to train on: name more", messages=count, needed=2 * FEWEST)
    if not any_fits:
        smallest = min(trials.sizes, default=0)
        detail = f"a dictionary needs {ENOUGH} bytes of messages for each of its own: ask for a smaller one with --size"
        raise ConfigError(detail, size=smallest, bytes=size, largest=size // ENOUGH)
