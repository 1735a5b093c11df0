"""`thinwire dict train --from ...`: train a dictionary on past messages, on Spark, and upload it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thinwire.cli.connection_options import (
    DEFAULT_URL,
    BrokerAccess,
    Credentials,
    SchemaFileOption,
    fetch_schema,
    read_schema,
)
from thinwire.cli.dict_store import dictionary_facts
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Column, Output, format_percent, format_time, write_atomically
from thinwire.cli.spark_options import MasterOption, progress_bar, spark_session
from thinwire.cli.terminal import run
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary import MAX_CONTENT
from thinwire.errors import ConfigError, UnknownTopic
from thinwire.schema import Schema
from thinwire.services.dictionary_trainer.dictionary_upload import UploadResult, upload_dictionary
from thinwire.topics.names import check_topic

if TYPE_CHECKING:
    from thinwire.spark.jobs.train import TrainingResult, TrialResult

DAY = 86_400.0
_UNITS = {"": 1, "k": 1024, "m": 1 << 20}
_FILE_SUFFIXES = {".json", ".jsonl", ".ndjson", ".csv", ".txt", ".log", ".xml", ".gz", ".parquet"}
"""file name suffixes; a misspelt file name is not taken for a topic"""

FromOption = Annotated[
    list[str],
    typer.Option(
        "--from",
        metavar="TABLE|TOPIC|FILE",
        help="A Parquet table, a topic, or files with one message per line; more files may follow.",
    ),
]
MoreArgument = Annotated[list[str] | None, typer.Argument(metavar="FILE...", help="More files.", show_default=False)]


@dataclass(frozen=True)
class MessageOptions:
    column: str | None = option(None, "Column with the messages of a table; default: rows as JSON.", metavar="NAME")
    time: str | None = option(None, "Column with the message time of a table.", metavar="NAME")
    schema: SchemaFileOption = None
    sample: int = option(20_000, "Largest number of messages to use.", metavar="N", min=16)
    seed: int = option(0, "Seed of the sample.")
    servers: str | None = option(None, "The broker to read a topic from.", metavar="URL", envvar="THINWIRE_URL")


@dataclass(frozen=True)
class DictionaryOptions:
    topic: str | None = option(None, "Topic of the dictionary; default: the topic it is trained on.", metavar="TOPIC")
    to: str | None = option(None, "Upload it to this broker and announce it to the publishers.", metavar="URL")
    out: Path | None = option(None, "Write the dictionary to this file.", metavar="FILE")
    size: str = option("4k,16k,64k", "Sizes in bytes, comma-separated; the best is taken.", metavar="16k")
    budget: float = option(
        0.25, "Largest CPU time of packing, as a multiple of deflate's; 10 allows every codec.", metavar="X", min=0.15
    )
    days: float = option(30, "With --to: days until it expires.", metavar="D", min=0.01, max=3650)


@with_options
def train(
    source: FromOption,
    more: MoreArgument = None,
    *,
    messages: MessageOptions,
    target: DictionaryOptions,
    master: MasterOption = "local[*]",
    credentials: Credentials,
    output: Output,
) -> None:
    """Train a dictionary on past messages and estimate its savings.

    The earlier 70 % of a sample are used for training, the later 30 % for
    evaluation. Sizes, codecs and levels are evaluated on Spark; the one with
    the smallest messages within the CPU budget is taken. Train on the bytes
    that are sent: for a topic with a schema its log, for a topic without
    one also files and tables with the same messages.

    \b
    thinwire dict train --from logs/*.jsonl --out web.dict
    thinwire dict train --from building.rooms --to nats://broker:4222
    thinwire dict train --from lake/raw --column payload --topic plant.raw --size 16k --to nats://broker:4222
    """
    from thinwire.spark.jobs.train import TrialSpec, train_topic
    from thinwire.spark.jobs.train import train as train_on_files

    paths, read_topic = _sources([*source, *(more or [])])
    topic = target.topic or read_topic
    _check(topic, target.to, messages, read_topic)
    trials = TrialSpec(read_sizes(target.size), target.budget, messages.seed, messages.sample)
    destination = BrokerAccess(target.to, credentials) if target.to is not None else None
    schema = read_schema(messages.schema)
    if schema is None and destination and paths and topic:
        schema = run(_fetch_registered_schema(destination, topic))
    broker = BrokerAccess(messages.servers or target.to or DEFAULT_URL, credentials)
    columns = {"column": messages.column, "time": messages.time}
    with spark_session(master, "thinwire dict train") as spark, progress_bar("training") as progress:
        if read_topic is None:
            result = train_on_files(spark, paths, trials, progress=progress, schema=schema, **columns)
        else:
            result = train_topic(spark, broker.url, read_topic, trials, progress=progress, **broker.options())
    if target.out is not None:
        write_atomically(target.out, result.dictionary.encode())
    uploaded = run(upload(destination, topic, result.dictionary, target.days)) if destination and topic else None
    _show(output, result, target.out, uploaded)


def read_sizes(text: str) -> list[int]:
    """Parse comma-separated sizes with the units k and m.

    >>> read_sizes("4k, 16k"), read_sizes("1000")
    ([4096, 16384], [1000])
    """
    matches = [re.fullmatch(r"\s*([0-9]{1,7})\s*([km]?)b?\s*", part.lower()) for part in text.split(",")]
    sizes = [int(match[1]) * _UNITS[match[2]] for match in matches if match is not None]
    if len(sizes) != len(matches) or not all(256 <= size <= MAX_CONTENT for size in sizes):
        raise ConfigError(f"a size is 256 bytes to {MAX_CONTENT >> 20}m, such as 16k or 4k,16k", size=text)
    return sorted(set(sizes))


def _sources(arguments: list[str]) -> tuple[list[str], str | None]:
    """Split the arguments into files and tables, or a topic."""
    existing = [name for name in arguments if "://" in name or Path(name).exists()]
    if len(existing) == len(arguments):
        return arguments, None
    (first, *others) = [name for name in arguments if name not in existing]
    if existing or others or "/" in first or Path(first).suffix in _FILE_SUFFIXES:
        raise ConfigError("no such file; a topic must be the only argument", **{"from": first})
    return [], check_topic(first)


def _check(topic: str | None, to: str | None, messages: MessageOptions, read_topic: str | None) -> None:
    if topic is not None:
        check_topic(topic)
    if to is not None and topic is None:
        raise ConfigError("name the topic of the dictionary: --topic TOPIC", to=to)
    if read_topic is not None and (messages.column or messages.time):
        raise ConfigError("a topic log has no columns: omit --column and --time", topic=read_topic)


async def _fetch_registered_schema(access: BrokerAccess, topic: str) -> Schema | None:
    """Return the schema of a topic; None if it is not registered."""
    async with access.bus() as bus:
        with suppress(UnknownTopic):
            return await fetch_schema(bus, topic)
    return None


async def upload(access: BrokerAccess, topic: str, dictionary: Dictionary, days: float) -> UploadResult:
    """Store a dictionary and announce it to the publishers of a topic for a number of days."""
    async with access.bus() as bus:
        return await upload_dictionary(
            bus.broker, topic, dictionary, now=time.time(), seconds=days * DAY, by="thinwire dict train"
        )


def _show(output: Output, result: TrainingResult, out: Path | None, uploaded: UploadResult | None) -> None:
    candidates = sorted(result.candidates, key=attrgetter("packed"))
    sample = result.sample
    title = f"{len(sample.messages):,} of {sample.seen:,} messages, 30 % of them held out"
    output.records(title, _columns(result.chosen), _best_per_size(candidates))
    output.note(f"dictionary {result.dictionary.hash.hex()}: {result.chosen.name}")
    if out is not None:
        output.note(f"written: {out}")
    if uploaded is not None:
        output.note(f"uploaded for {uploaded.topic}; publishers use it until {format_time(uploaded.expires)}")
    trials = [{"chosen": trial is result.chosen, "name": trial.name, **vars(trial)} for trial in candidates]
    document = {**dictionary_facts(result.dictionary), "messages": sample.seen, "candidates": trials, "out": out}
    output.document({**document, "uploaded": uploaded._asdict() if uploaded is not None else None})


def _columns(chosen: TrialResult) -> dict[str, Column]:
    return {
        "": lambda candidate: ">" if candidate is chosen else "",
        "candidate": "name",
        "bytes per message": "packed",
        "saved": lambda candidate: format_percent(candidate.saved),
        "CPU relative to deflate": lambda candidate: f"{candidate.cpu:.2f}",
        "bytes": lambda candidate: candidate.content or None,
        "transfer size": lambda candidate: candidate.travelling or None,
    }


def _best_per_size(candidates: Sequence[TrialResult]) -> Iterable[TrialResult]:
    """Return the first candidate for each codec, level and size."""
    best: dict[tuple[str, int, int], TrialResult] = {}
    for candidate in candidates:
        best.setdefault((candidate.codec, candidate.level, candidate.size), candidate)
    return best.values()
