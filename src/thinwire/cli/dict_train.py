"""`thinwire dict train --from ...`: train a dictionary on past messages, on Spark, and upload it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    SchemaFileOption,
    read_schema,
    with_credentials,
)
from thinwire.cli.dict_output import facts_of, format_percent, format_time
from thinwire.cli.output import JsonOption, Output, write_atomically
from thinwire.cli.spark_options import MasterOption, progress_bar
from thinwire.cli.terminal import run
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary import MAX_CONTENT
from thinwire.errors import ConfigError, UnknownTopic
from thinwire.schema import Schema
from thinwire.services.dictionary_trainer.dictionary_upload import UploadResult, upload_dictionary
from thinwire.topics.names import check_topic
from thinwire.topics.registry_client import current_schema, open_registry

if TYPE_CHECKING:
    from thinwire.spark.jobs.train import TrainingResult, TrialSpec


DAY = 86_400.0


async def fetch_registered_schema(access: BrokerAccess, topic: str) -> Schema | None:
    """Return the schema of a topic; None if it is not registered."""
    async with access.bus() as bus:
        try:
            return await current_schema(await open_registry(bus.broker), topic)
        except UnknownTopic:
            return None


async def upload(access: BrokerAccess, topic: str, dictionary: Dictionary, days: float) -> UploadResult:
    """Store a dictionary and announce it to the publishers of a topic for a number of days."""
    async with access.bus() as bus:
        by = "thinwire dict train"
        return await upload_dictionary(bus.broker, topic, dictionary, now=time.time(), seconds=days * DAY, by=by)


FromOption = Annotated[
    list[str],
    typer.Option(
        "--from",
        metavar="TABLE|TOPIC|FILE",
        help="A Parquet table, a topic, or files with one message per line; more files may follow.",
    ),
]
MoreArgument = Annotated[list[str] | None, typer.Argument(metavar="FILE...", help="More files.", show_default=False)]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="Topic of the dictionary; default: the topic it is trained on."),
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="URL", help="Upload it to this broker and announce it to the publishers.")
]
ServersOption = Annotated[
    str | None,
    typer.Option("--servers", metavar="URL", envvar="THINWIRE_URL", help="The broker to read a topic from."),
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the dictionary to this file.")]
SizesOption = Annotated[
    str, typer.Option("--size", metavar="16k", help="Sizes in bytes, comma-separated; the best is taken.")
]
BudgetOption = Annotated[
    float,
    typer.Option(
        "--budget", metavar="X", min=0.15, help="CPU time of packing relative to deflate: 1 thorough, 10 everything."
    ),
]
ColumnOption = Annotated[
    str | None,
    typer.Option("--column", metavar="NAME", help="Column with the messages of a table; default: rows as JSON."),
]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="NAME", help="Column with the message time of a table.")
]
SampleOption = Annotated[int, typer.Option("--sample", metavar="N", min=16, help="Largest number of messages to use.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the sample.")]
DaysOption = Annotated[
    float, typer.Option("--days", metavar="D", min=0.01, max=3650, help="With --to: days until it expires.")
]

COLUMNS = ("", "candidate", "bytes a message", "saved", "CPU to deflate", "bytes", "bytes to each")
_UNITS = {"": 1, "k": 1024, "m": 1 << 20}


@with_credentials
def train(
    source: FromOption,
    more: MoreArgument = None,
    topic: TopicOption = None,
    to: ToOption = None,
    out: OutOption = None,
    size: SizesOption = "4k,16k,64k",
    budget: BudgetOption = 0.25,
    column: ColumnOption = None,
    time: TimeOption = None,
    schema: SchemaFileOption = None,
    sample: SampleOption = 20_000,
    seed: SeedOption = 0,
    days: DaysOption = 30,
    master: MasterOption = "local[*]",
    servers: ServersOption = None,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
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
    from thinwire.spark.jobs.train import TrialSpec

    output = Output(json)
    paths, read_topic = _sources([*source, *(more or [])])
    name = topic or read_topic
    _check(name, to, column, time, read_topic)
    trials = TrialSpec(read_sizes(size), budget, seed, sample)
    access = BrokerAccess(servers or to or DEFAULT_URL, credentials)
    target = BrokerAccess(to, credentials) if to is not None else None
    written = read_schema(schema) or (run(fetch_registered_schema(target, name)) if target and paths and name else None)
    options = {"column": column, "time": time, "schema": written}
    made = _run(master, paths, read_topic, access, trials, options)
    if out is not None:
        write_atomically(out, made.dictionary.encode())
    uploaded = run(upload(target, name, made.dictionary, days)) if target and name else None
    _show(output, made, out, uploaded)


def read_sizes(text: str) -> list[int]:
    """Parse comma-separated sizes with the units k and m.

    >>> read_sizes("4k, 16k"), read_sizes("1000")
    ([4096, 16384], [1000])
    """
    matches = [re.fullmatch(r"\s*([0-9]{1,7})\s*([km]?)b?\s*", part.lower()) for part in text.split(",")]
    sizes = [int(one[1]) * _UNITS[one[2]] for one in matches if one is not None]
    if len(sizes) != len(matches) or not all(256 <= size <= MAX_CONTENT for size in sizes):
        raise ConfigError(f"a size is 256 bytes to {MAX_CONTENT >> 20}m, such as 16k or 4k,16k", size=text)
    return sorted(set(sizes))


def _sources(given: list[str]) -> tuple[list[str], str | None]:
    """Split the arguments into files and tables, or a topic."""
    existing = [name for name in given if "://" in name or Path(name).exists()]
    if len(existing) == len(given):
        return given, None
    (first, *others) = [name for name in given if name not in existing]
    if existing or others or "/" in first or Path(first).suffix in _FILE_SUFFIXES:
        raise ConfigError("no such file; a topic must be the only argument", **{"from": first})
    return [], check_topic(first)


def _check(topic: str | None, to: str | None, column: str | None, time: str | None, read_topic: str | None) -> None:
    if topic is not None:
        check_topic(topic)
    if to is not None and topic is None:
        raise ConfigError("name the topic of the dictionary: --topic TOPIC", to=to)
    if read_topic is not None and (column or time):
        raise ConfigError("a topic log has no columns: omit --column and --time", topic=read_topic)


def _run(
    master: str, paths: list[str], topic: str | None, access: BrokerAccess, trials: TrialSpec, options: dict[str, Any]
) -> TrainingResult:
    from thinwire.spark.jobs.train import train as run_train
    from thinwire.spark.jobs.train import train_topic
    from thinwire.spark.session import session

    spark = session(master, app="thinwire dict train")
    try:
        with progress_bar("training") as progress:
            if topic is None:
                return run_train(spark, paths, trials, progress=progress, **options)
            return train_topic(spark, access.url, topic, trials, progress=progress, **access.options())
    finally:
        spark.stop()


def _show(output: Output, made: TrainingResult, out: Path | None, uploaded: UploadResult | None) -> None:
    ordered = sorted(made.candidates, key=lambda one: one.packed)
    best = {(one.codec, one.level, one.size): one for one in reversed(ordered)}
    rows = [
        (">" if one is made.chosen else "", one.name, one.packed, format_percent(one.saved), f"{one.cpu:.2f}",
         one.content or None, one.travelling or None)
        for one in sorted(best.values(), key=lambda one: one.packed)
    ]  # fmt: skip
    sample = made.sample
    output.table(f"{len(sample.messages):,} of {sample.seen:,} messages, 30 % of them held out", COLUMNS, rows)
    output.note(f"dictionary {made.dictionary.hash.hex()}: {made.chosen.name}")
    if out is not None:
        output.note(f"written: {out}")
    if uploaded is not None:
        output.note(f"uploaded for {uploaded.topic}; publishers use it until {format_time(uploaded.expires)}")
    candidates = [{"chosen": one is made.chosen, "name": one.name, **vars(one)} for one in ordered]
    document = {**facts_of(made.dictionary), "messages": sample.seen, "candidates": candidates, "out": out}
    output.document({**document, "told": uploaded._asdict() if uploaded is not None else None})


_FILE_SUFFIXES = {".json", ".jsonl", ".ndjson", ".csv", ".txt", ".log", ".xml", ".gz", ".parquet"}
"""file name suffixes; a misspelt file name is not taken for a topic"""
