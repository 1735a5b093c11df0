"""`thinwire dict train --from ...`: a dictionary from messages of the past, on Spark.

A dictionary that somebody trained, given to a topic at a broker.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NOBODY,
    Access,
    Identity,
    SchemaFileOption,
    identified,
    read_schema,
)
from thinwire.cli.dict_output import facts_of, instant, percent
from thinwire.cli.output import JsonOption, Output
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


async def registered(access: Access, topic: str) -> Schema | None:
    """The schema of a topic; None where it has none there."""
    async with access.bus() as bus:
        try:
            return await current_schema(await open_registry(bus.broker), topic)
        except UnknownTopic:
            return None


async def publish(access: Access, topic: str, dictionary: Dictionary, days: float) -> UploadResult:
    """Store a dictionary and tell the publishers of a topic, who use it from then on for so many days."""
    async with access.bus() as bus:
        by = "thinwire dict train"
        return await upload_dictionary(bus.broker, topic, dictionary, now=time.time(), seconds=days * DAY, by=by)


FromOption = Annotated[
    list[str],
    typer.Option(
        "--from",
        metavar="TABLE|TOPIC|FILE",
        help="A Parquet table, a topic, or files with a message a line; more files may follow.",
    ),
]
MoreArgument = Annotated[list[str] | None, typer.Argument(metavar="FILE...", help="More files.", show_default=False)]
TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="What it is for; else the topic it is trained from.")
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="URL", help="Store it at this broker, and tell the topic's publishers.")
]
ServersOption = Annotated[
    str | None,
    typer.Option("--servers", metavar="URL", envvar="THINWIRE_URL", help="The broker to read a topic from."),
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it here.")]
SizesOption = Annotated[
    str, typer.Option("--size", metavar="16k", help="Bytes, or several joined by commas: the best is kept.")
]
BudgetOption = Annotated[
    float,
    typer.Option("--budget", metavar="X", min=0.15, help="CPU time to pack, in deflates: 1 thorough, 10 everything."),
]
ColumnOption = Annotated[
    str | None, typer.Option("--column", metavar="NAME", help="Of a table: the messages; else rows as JSON.")
]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="NAME", help="Of a table: the column that tells when a message was.")
]
SampleOption = Annotated[int, typer.Option("--sample", metavar="N", min=16, help="Messages to look at, at most.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Of the sample: equal seeds draw equal samples.")]
DaysOption = Annotated[
    float, typer.Option("--days", metavar="D", min=0.01, max=3650, help="With --to: for how long it may be used.")
]

COLUMNS = ("", "candidate", "bytes a message", "saved", "CPU to deflate", "bytes", "bytes to each")
_UNITS = {"": 1, "k": 1024, "m": 1 << 20}


@identified
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
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Train a dictionary on messages of the past, and say what it would save.

    The earlier 70 % of a sample train, the later 30 % judge: sizes, codecs
    and levels are tried side by side on Spark, and what packs the later
    messages smallest within the CPU budget is kept. Train on what travels:
    of a topic with a schema that is its log, of one without it files and
    tables of the same messages will do.

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
    access = Access(servers or to or DEFAULT_URL, who)
    telling = Access(to, who) if to is not None else None
    written = read_schema(schema) or (run(registered(telling, name)) if telling and paths and name else None)
    options = {"column": column, "time": time, "schema": written}
    made = _run(master, paths, read_topic, access, trials, options)
    if out is not None:
        _write(out, made.dictionary.encode())
    told = run(publish(telling, name, made.dictionary, days)) if telling and name else None
    _show(output, made, out, told)


def read_sizes(text: str) -> list[int]:
    """Bytes, with k or m for more of them.

    >>> read_sizes("4k, 16k"), read_sizes("1000")
    ([4096, 16384], [1000])
    """
    found = [re.fullmatch(r"\s*([0-9]{1,7})\s*([km]?)b?\s*", part.lower()) for part in text.split(",")]
    sizes = [int(one[1]) * _UNITS[one[2]] for one in found if one is not None]
    if len(sizes) != len(found) or not all(256 <= size <= MAX_CONTENT for size in sizes):
        raise ConfigError(f"a size is 256 bytes to {MAX_CONTENT >> 20}m, such as 16k or 4k,16k", size=text)
    return sorted(set(sizes))


def _sources(given: list[str]) -> tuple[list[str], str | None]:
    """The files and tables, or else the topic."""
    there = [name for name in given if "://" in name or Path(name).exists()]
    if len(there) == len(given):
        return given, None
    (first, *others) = [name for name in given if name not in there]
    if there or others or "/" in first or Path(first).suffix in _ENDINGS:
        raise ConfigError("there is no such file, and a topic stands alone", **{"from": first})
    return [], check_topic(first)


def _check(topic: str | None, to: str | None, column: str | None, time: str | None, read_topic: str | None) -> None:
    if topic is not None:
        check_topic(topic)
    if to is not None and topic is None:
        raise ConfigError("say which topic it is for: --topic TOPIC", to=to)
    if read_topic is not None and (column or time):
        raise ConfigError("a topic's log has no columns: leave out --column and --time", topic=read_topic)


def _run(
    master: str, paths: list[str], topic: str | None, access: Access, trials: TrialSpec, options: dict[str, Any]
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


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_bytes(data)
    unfinished.replace(path)  # a reader sees all of it or nothing


def _show(output: Output, made: TrainingResult, out: Path | None, told: UploadResult | None) -> None:
    ordered = sorted(made.candidates, key=lambda one: one.packed)
    best = {(one.codec, one.level, one.size): one for one in reversed(ordered)}
    rows = [
        (">" if one is made.chosen else "", one.name, one.packed, percent(one.saved), f"{one.cpu:.2f}",
         one.content or None, one.travelling or None)
        for one in sorted(best.values(), key=lambda one: one.packed)
    ]  # fmt: skip
    sample = made.sample
    output.table(f"{len(sample.messages):,} of {sample.seen:,} messages, 30 % of them held out", COLUMNS, rows)
    output.note(f"dictionary {made.dictionary.hash.hex()}: {made.chosen.name}")
    if out is not None:
        output.note(f"written: {out}")
    if told is not None:
        output.note(f"told to the publishers of {told.topic}, to be used until {instant(told.expires)}")
    candidates = [{"chosen": one is made.chosen, "name": one.name, **vars(one)} for one in ordered]
    document = {**facts_of(made.dictionary), "messages": sample.seen, "candidates": candidates, "out": out}
    output.document({**document, "told": told._asdict() if told is not None else None})


_ENDINGS = {".json", ".jsonl", ".ndjson", ".csv", ".txt", ".log", ".xml", ".gz", ".parquet"}
"""what a file's name may end with, so that a misspelt one is not taken for a topic"""
