"""Options of the source, and positions by topic in options and in checkpoints of queries.

An offset is the number of the next message to read. -2 is the first message of the log, -1 is its end.

>>> offsets = read_offsets("startingOffsets", '{"rooms": 120, "doors": -2}')
>>> offsets.of("rooms"), offsets.of("doors")
(120, -2)
>>> read_offsets("startingOffsets", "latest").of("rooms")
-1

>>> options = SourceOptions.read({"servers": "nats://ada:secret@broker:4222", "subscribe": "building.rooms, doors"})
>>> options.topics, options.fail_on_data_loss
(('building.rooms', 'doors'), True)
>>> options
SourceOptions(nats://broker:4222, topics=['building.rooms', 'doors'], columns='events')
>>> SourceOptions.read({"servers": "nats://broker:4222"})
Traceback (most recent call last):
...
thinwire.errors.ConfigError: bad setting: name the topics with subscribe or subscribePattern: option='subscribe'
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast, get_args

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol import Span
from thinwire.codec import Demand
from thinwire.errors import BadUrl, ConfigError, DemandError
from thinwire.topics.names import check_topic
from thinwire.topics.position import Position

EARLIEST, LATEST = -2, -1
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class TopicOffsets:
    """Offsets by topic, with a default for other topics."""

    default: int
    by_topic: Mapping[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int:
        """Return the offset of a topic as written in the option."""
        return self.by_topic.get(topic, self.default)

    def within(self, topic: str, span: Span) -> int:
        """Return the offset of the next message to read of a topic with this span."""
        offset = self.of(topic)
        if offset == EARLIEST:
            return span.first
        return span.last + 1 if offset == LATEST else offset

    def check(self, option: str, topics: list[str]) -> None:
        """Raise `ConfigError` for an offset of a topic that is not read."""
        unknown = sorted(set(self.by_topic) - set(topics))
        if unknown:
            raise ConfigError("an offset of a topic that is not read", option=option, topic=unknown[0], topics=topics)


def encode_positions(positions: Mapping[str, Position]) -> dict[str, Any]:
    """Return the next positions of a stream by topic as the checkpoint of a query stores them.

    >>> encode_positions({"rooms": Position(120, log_id="2026-01-31T08:00:00Z"), "doors": Position(1)})
    {'rooms': {'offset': 120, 'log': '2026-01-31T08:00:00Z'}, 'doors': {'offset': 1}}
    """
    return {
        topic: {"offset": at.offset, "log": at.log_id} if at.log_id else {"offset": at.offset}
        for topic, at in positions.items()
    }


def decode_positions(stored: Mapping[str, Any]) -> dict[str, Position]:
    """Return the positions of a checkpoint.

    >>> decode_positions({"rooms": {"offset": 120, "log": "2026-01-31T08:00:00Z"}})["rooms"].offset
    120
    """
    positions = {}
    for topic, at in stored.items():
        if not isinstance(at, dict):
            detail = "a checkpoint of a version before 0.2: start the query with a new checkpointLocation"
            raise ConfigError(detail, topic=topic, value=at)
        positions[topic] = Position(at["offset"], log_id=at.get("log", ""))
    return positions


def read_offsets(option: str, text: str) -> TopicOffsets:
    """Parse an option: earliest, latest, or a JSON object of offsets by topic."""
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return TopicOffsets(word)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict) or not parsed:
        detail = 'earliest, latest, or an object of offsets by topic such as {"building.rooms": 120}'
        raise ConfigError(detail, option=option, value=text)
    for topic, offset in parsed.items():
        if isinstance(offset, bool) or not isinstance(offset, int) or not EARLIEST <= offset < 1 << 62:
            detail = "an offset is a whole number, -2 for the earliest, -1 for the latest"
            raise ConfigError(detail, option=option, topic=topic, offset=offset)
    return TopicOffsets(EARLIEST if option == "startingOffsets" else LATEST, parsed)


NAMES = (
    "servers",
    "path",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "tolerance",
    "columns",
    "stateLocation",
    "expectSchemas",
)
CREDENTIALS = ("token", "user", "password", "credentials", "nkey", "ca", "certificate", "key", "hostname")
"""options of the connection"""
MAX_PARTITIONS = 10_000
_END = 253_402_300_800_000
"""milliseconds since the epoch at the start of the year 10000"""
Columns = Literal["events", "frames", "messages"]
"""a row is an event, a frame, or a message of the log"""


@dataclass(frozen=True)
class SourceOptions:
    """Options of the source.

    servers, path: the broker, or the folder of a recording
    topics, pattern: the topics to read; starting, ending: offsets by topic; since: start time, seconds since the epoch
    state_location: folder for decoder states of a stream between batches
    schemas: fingerprints (hex) by topic; a stream ends with `SchemaChanged` if the registry has another one
    """

    servers: str | None
    path: str | None
    topics: tuple[str, ...]
    pattern: str | None
    starting: TopicOffsets | None
    ending: TopicOffsets
    since: float | None
    max_offsets: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    demand: Demand | None
    columns: Columns
    state_location: str | None
    schemas: Mapping[str, str] = field(default_factory=dict)
    connection: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options of Spark. Names are not case-sensitive."""
        reader = OptionReader(options, NAMES)
        parsed = cls(
            servers=reader.servers(),
            path=reader.text("path"),
            topics=reader.topics(),
            pattern=reader.pattern(),
            starting=reader.offsets("startingOffsets"),
            ending=reader.offsets("endingOffsets") or TopicOffsets(LATEST),
            since=reader.instant("startingTimestamp"),
            max_offsets=reader.count("maxOffsetsPerTrigger"),
            min_partitions=reader.count("minPartitions", MAX_PARTITIONS),
            fail_on_data_loss=reader.flag("failOnDataLoss", True),
            demand=reader.demand(),
            columns=reader.columns(),
            state_location=reader.text("stateLocation"),
            schemas=reader.fingerprints("expectSchemas"),
            connection=reader.connection(),
        )
        parsed._check()
        return parsed

    def __repr__(self) -> str:
        location = read_url(self.servers).shown if self.servers is not None else self.path
        topics = f"topics={list(self.topics)}" if self.topics else f"pattern={self.pattern!r}"
        return f"SourceOptions({location}, {topics}, columns={self.columns!r})"

    def _check(self) -> None:
        if (self.servers is None) == (self.path is None):
            raise ConfigError("give either servers or path", option="servers")
        if not self.topics and self.pattern is None:
            raise ConfigError("name the topics with subscribe or subscribePattern", option="subscribe")
        if self.topics and self.pattern is not None:
            raise ConfigError("give either subscribe or subscribePattern", option="subscribePattern")
        if self.demand is not None and self.columns != "events":
            raise ConfigError(f"{self.columns} have no tolerance: use columns=events", option="tolerance")


class OptionReader:
    """Parses single options. Names are not case-sensitive. Errors name the option.

    names: the options of the source or sink, besides those of the connection
    passed_on: options of Spark that are accepted and ignored
    """

    def __init__(self, options: Mapping[str, str], names: Sequence[str], passed_on: Sequence[str] = ()) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        unknown = sorted(self._values.keys() - {name.lower() for name in (*names, *CREDENTIALS, *passed_on)})
        if unknown:
            raise ConfigError("no such option", option=unknown[0], choose_from=list(names))

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower()) or None

    def json(self, name: str) -> Any:
        """Return the parsed JSON of an option; None if it is not JSON."""
        try:
            return json.loads(self._values[name.lower()])
        except (ValueError, RecursionError):
            return None

    def connection(self) -> dict[str, str]:
        return {name: self._values[name] for name in CREDENTIALS if name in self._values}

    def servers(self) -> str | None:
        value = self.text("servers")
        if value is None:
            return None
        try:
            scheme = read_url(value).scheme
        except BadUrl as problem:
            raise ConfigError(
                f"{problem.detail}: write nats://host:4222 or tls://host:4222", option="servers"
            ) from None
        if scheme not in ("nats", "tls"):
            detail = "tasks run in other processes: only nats:// and tls:// can be read"
            raise ConfigError(detail, option="servers", scheme=scheme)
        return value

    def topics(self) -> tuple[str, ...]:
        names = [name.strip() for name in (self.text("subscribe") or "").split(",")]
        try:
            return tuple(check_topic(name) for name in dict.fromkeys(names) if name)
        except ConfigError as problem:
            raise ConfigError(problem.detail, option="subscribe", **problem.facts) from None

    def pattern(self) -> str | None:
        value = self.text("subscribePattern")
        try:
            if value is not None:
                re.compile(value)
        except re.error as problem:
            raise ConfigError(f"not a regular expression: {problem}", option="subscribePattern", value=value) from None
        return value

    def offsets(self, name: str) -> TopicOffsets | None:
        value = self.text(name)
        return read_offsets(name, value) if value is not None else None

    def count(self, name: str, limit: int = 1 << 62) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,19}", value.strip()) or not 1 <= int(value) <= limit:
            raise ConfigError(f"a whole number from 1 to {limit}", option=name, value=value)
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise ConfigError("true or false", option=name, value=value)
        return value == "true"

    def instant(self, name: str) -> float | None:
        """Parse milliseconds since the epoch, as in the Kafka source, or an ISO 8601 time with a zone."""
        value = self.text(name)
        if value is None:
            return None
        if re.fullmatch(r"[0-9]{1,15}", value) and int(value) < _END:
            return int(value) / 1000
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            detail = "milliseconds since the epoch, or a time with its zone such as 2026-01-31T08:00:00+00:00"
            raise ConfigError(detail, option=name, value=value)
        return time.timestamp()

    def demand(self) -> Demand | None:
        value = self.text("tolerance")
        if value is None:
            return None
        try:
            return _demand(self.json("tolerance"))
        except DemandError as problem:
            raise ConfigError(problem.detail, option="tolerance", value=value) from None

    def fingerprints(self, name: str) -> dict[str, str]:
        value = self.text(name)
        parsed = self.json(name) if value is not None else {}
        if not isinstance(parsed, dict) or not all(isinstance(text, str) for text in parsed.values()):
            raise ConfigError("an object of fingerprints by topic", option=name, value=value)
        return parsed

    def columns(self) -> Columns:
        value = self.text("columns") or "events"
        if value not in get_args(Columns):
            raise ConfigError("events, frames or messages", option="columns", value=value)
        return cast(Columns, value)


def _demand(parsed: Any) -> Demand:
    if isinstance(parsed, dict) and all(isinstance(value, int | float | str) for value in parsed.values()):
        return Demand(tolerance=parsed)
    if isinstance(parsed, int | float) and not isinstance(parsed, bool) and math.isfinite(parsed):
        return Demand(default_tolerance=parsed)
    raise DemandError('a number, or an object of numbers by property such as {"temperature": 0.5}')
