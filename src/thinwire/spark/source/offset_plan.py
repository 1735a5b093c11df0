"""The offsets that a query reads, and their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from thinwire.brokers.protocol import LogSource
from thinwire.errors import ConfigError, DataLoss
from thinwire.spark.source.source_options import EARLIEST, SourceOptions, TopicOffsets
from thinwire.topics.log_tables.log_table import LogTable
from thinwire.topics.log_tables.offset_range import Range
from thinwire.topics.log_tables.source_broker import span_of
from thinwire.topics.names import log_of
from thinwire.topics.position import Position


def limit_batch(first: Mapping[str, int], end: Mapping[str, int], max_messages: int | None) -> dict[str, int]:
    """Return the end offset of a batch by topic. `max_messages` are shared in proportion to the available messages.

    >>> limit_batch({"rooms": 1, "doors": 1}, {"rooms": 901, "doors": 101}, max_messages=100)
    {'rooms': 91, 'doors': 11}
    >>> limit_batch({"rooms": 1}, {"rooms": 901}, max_messages=None)
    {'rooms': 901}
    """
    available = {topic: max(0, last - first[topic]) for topic, last in end.items()}
    total = sum(available.values())
    if max_messages is None or total <= max_messages:
        return dict(end)
    shares = {topic: max_messages * count // total for topic, count in available.items()}
    left = max_messages - sum(shares.values())
    # The remainder goes to the topics with the most messages; otherwise a small limit makes no progress.
    for topic in sorted(available, key=lambda name: (-available[name], name))[:left]:
        shares[topic] += 1
    return {
        topic: first[topic] + min(shares[topic], available[topic]) if available[topic] else end[topic] for topic in end
    }


MESSAGES_PER_PARTITION = 50_000
"""used without the option minPartitions"""


@dataclass(repr=False)
class ReadPartition(InputPartition):
    """Messages of a topic from offset `first` to `last`, both included.

    log_id: identity of the log
    input_state, output_state: names of the decoder states before and after the range; "" for none
    obsolete_state: name of a state that can be deleted
    """

    topic: str
    first: int
    last: int
    log_id: str = ""
    input_state: str = ""
    output_state: str = ""
    obsolete_state: str = ""

    def __repr__(self) -> str:
        return f"{self.topic} {self.first}..{self.last}"


def check_logs(source: LogSource, options: SourceOptions, topics: list[str]) -> None:
    """Raise `DataLoss` for a topic without a log: nothing was published, or the log was deleted."""
    existing = set(source.logs())
    missing = next((topic for topic in topics if log_of(topic) not in existing), None)
    if missing is not None and options.fail_on_data_loss:
        raise DataLoss("the topic has no log", topic=missing, log=log_of(missing), option="failOnDataLoss")


def resolve_starts(source: LogSource, options: SourceOptions, topics: list[str], default: int) -> dict[str, int]:
    """Return the first offset to read by topic."""
    starting = options.starting or TopicOffsets(default)
    starting.check("startingOffsets", topics)
    spans = {topic: span_of(source, log_of(topic)) for topic in topics}
    if options.since is None:
        return {topic: starting.resolve(topic, span, "startingOffsets") for topic, span in spans.items()}
    since = options.since
    return {topic: source.offset_at(log_of(topic), since) if span.messages else 1 for topic, span in spans.items()}


def resolve_ends(source: LogSource, options: SourceOptions, topics: list[str]) -> dict[str, Position]:
    """Return the position after the last message to read by topic."""
    ending = options.ending
    ending.check("endingOffsets", topics)
    earliest = next((topic for topic in topics if ending.of(topic) == EARLIEST), None)
    if earliest is not None:
        detail = "a table cannot end at the start of the log"
        raise ConfigError(detail, option="endingOffsets", topic=earliest, offset=EARLIEST)
    spans = {topic: span_of(source, log_of(topic)) for topic in topics}
    return {
        topic: Position(ending.resolve(topic, span, "endingOffsets"), log_id=span.log_id)
        for topic, span in spans.items()
    }


def plan_partitions(
    source: LogSource, options: SourceOptions, first: Mapping[str, int], end: Mapping[str, Position]
) -> list[ReadPartition]:
    """Return the partitions of the messages between two positions, in order."""
    ranges = {topic: Range(first.get(topic, 1), at.offset - 1) for topic, at in end.items()}
    total = sum(map(len, ranges.values()))
    wanted = options.min_partitions or -(-total // MESSAGES_PER_PARTITION)
    return [
        ReadPartition(topic, part.first, part.last, end[topic].log_id)
        for topic, messages in ranges.items()
        if messages
        for part in _split(source, options, topic, messages, -(-wanted * len(messages) // total))
    ]


def _split(source: LogSource, options: SourceOptions, topic: str, messages: Range, count: int) -> list[Range]:
    if count <= 1:
        return [messages]
    if options.columns == "events":
        return LogTable(source, topic).split(messages.first, messages.last, count)
    step = -(-len(messages) // count)
    firsts = range(messages.first, messages.last + 1, step)
    return [Range(first, min(first + step - 1, messages.last)) for first in firsts]
