"""How far a batch goes: not further than the logs, and not further than was asked for.

Which messages a query reads, and in which parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from thinwire.brokers.protocol import LogSource, Span
from thinwire.errors import ConfigError, DataLoss
from thinwire.spark.source.source_options import EARLIEST, Reached, SourceOptions, TopicOffsets
from thinwire.topics.log_tables import LogTable, Range, span_of
from thinwire.topics.names import log_of


def admitted(first: Mapping[str, int], end: Mapping[str, int], most: int | None) -> dict[str, int]:
    """The offset behind the last message of every topic; each gets its share of `most` by what it has.

    >>> admitted({"rooms": 1, "doors": 1}, {"rooms": 901, "doors": 101}, most=100)
    {'rooms': 91, 'doors': 11}
    >>> admitted({"rooms": 1}, {"rooms": 901}, most=None)
    {'rooms': 901}
    """
    there = {topic: max(0, behind - first[topic]) for topic, behind in end.items()}
    total = sum(there.values())
    if most is None or total <= most:
        return dict(end)
    shares = {topic: most * count // total for topic, count in there.items()}
    left = most - sum(shares.values())
    # what rounding left over goes to the topics with the most, so that every batch gets on
    for topic in sorted(there, key=lambda name: (-there[name], name))[:left]:
        shares[topic] += 1
    return {topic: first[topic] + min(shares[topic], there[topic]) if there[topic] else end[topic] for topic in end}


A_PART = 50_000
"""messages of a part, about, where nobody asked for a number of parts"""


@dataclass(repr=False)
class ReadPartition(InputPartition):
    """A part of a query: the messages of a topic from an offset to another, both included.

    log: of which log, by when it was made
    follows: the name under which the state before it may have been kept; leaves: under which the state behind it is;
    drops: the name of a state that nobody needs any more
    """

    topic: str
    first: int
    last: int
    log: str = ""
    follows: str = ""
    leaves: str = ""
    drops: str = ""

    def __repr__(self) -> str:
        return f"{self.topic} {self.first}..{self.last}"


def check_logs(source: LogSource, options: SourceOptions, topics: list[str]) -> None:
    """A table is made of what is there: a topic without a log was never published, or its log was deleted."""
    there = set(source.logs())
    missing = next((topic for topic in topics if log_of(topic) not in there), None)
    if missing is not None and options.fail_on_data_loss:
        raise DataLoss("the topic has no log", topic=missing, log=log_of(missing), option="failOnDataLoss")


def starts(source: LogSource, options: SourceOptions, topics: list[str], default: int) -> dict[str, int]:
    """The offset of the first message to read of every topic."""
    place = options.starting or TopicOffsets(default)
    place.check("startingOffsets", topics)
    spans = {topic: span_of(source, log_of(topic)) for topic in topics}
    if options.since is not None:
        there = {topic: span for topic, span in spans.items() if span.messages}
        return {topic: source.offset_at(log_of(topic), options.since) if topic in there else 1 for topic in topics}
    return {topic: _start(place, topic, span) for topic, span in spans.items()}


def ends(source: LogSource, options: SourceOptions, topics: list[str]) -> dict[str, Reached]:
    """The place behind the last message to read of every topic."""
    options.ending.check("endingOffsets", topics)
    return {topic: _end(options, topic, span_of(source, log_of(topic))) for topic in topics}


def parts(
    source: LogSource, options: SourceOptions, first: Mapping[str, int], behind: Mapping[str, Reached]
) -> list[ReadPartition]:
    """The parts of what lies between two places; those of a topic in their order."""
    asked = {topic: Range(first.get(topic, 1), end.offset - 1) for topic, end in behind.items()}
    total = sum(map(len, asked.values()))
    wanted = options.min_partitions or -(-total // A_PART)
    made: list[ReadPartition] = []
    for topic, messages in asked.items():
        if messages:
            share = max(1, -(-wanted * len(messages) // total))
            split = _split(source, options, topic, messages, share)
            made += [ReadPartition(topic, one.first, one.last, behind[topic].log) for one in split]
    return made


def _split(source: LogSource, options: SourceOptions, topic: str, messages: Range, count: int) -> list[Range]:
    if count <= 1:
        return [messages]
    if options.columns == "events":
        return LogTable(source, topic).split(messages.first, messages.last, count)
    step = -(-len(messages) // count)
    firsts = range(messages.first, messages.last + 1, step)
    return [Range(first, min(first + step - 1, messages.last)) for first in firsts]


def _start(place: TopicOffsets, topic: str, span: Span) -> int:
    first = place.within(topic, span)
    if first > span.last + 1:
        detail = "the log does not reach that far yet"
        raise ConfigError(detail, option="startingOffsets", topic=topic, offset=first, end=span.last + 1)
    return first


def _end(options: SourceOptions, topic: str, span: Span) -> Reached:
    asked = options.ending.of(topic)
    if asked == EARLIEST:
        raise ConfigError("a table cannot end at its beginning", option="endingOffsets", topic=topic, offset=asked)
    end = options.ending.within(topic, span)
    if end > span.last + 1:
        detail = "the log does not reach that far yet"
        raise ConfigError(detail, option="endingOffsets", topic=topic, offset=end, end=span.last + 1)
    return Reached(end, span.made)
