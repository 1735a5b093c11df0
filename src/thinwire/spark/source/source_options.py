"""Options of the source, and positions by topic in options and in checkpoints of queries.

An offset is the number of the next message to read. -2 is the first message of the log, -1 is its end.

>>> offsets = parse_offsets('{"rooms": 120, "doors": -2}', LATEST)
>>> [offsets.of(topic) for topic in ("rooms", "doors", "halls")]
[120, -2, -1]

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeVar, cast, get_args

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol import Span
from thinwire.codec import Demand
from thinwire.errors import BadUrl, ConfigError, DemandError
from thinwire.topics.names import check_topic
from thinwire.topics.position import Position

T = TypeVar("T")

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

    def resolve(self, topic: str, span: Span, option: str) -> int:
        """Return the offset in the log of a topic. Raise `ConfigError` if it is beyond the end of the log."""
        end = span.last + 1
        offset = {EARLIEST: span.first, LATEST: end}.get(self.of(topic), self.of(topic))
        if offset > end:
            raise ConfigError("offset beyond the end of the log", option=option, topic=topic, offset=offset, end=end)
        return offset

    def check(self, option: str, topics: list[str]) -> None:
        """Raise `ConfigError` for an offset of a topic that is not read."""
        unknown = sorted(set(self.by_topic) - set(topics))
        if unknown:
            raise ConfigError("offset of a topic that is not read", option=option, topic=unknown[0], topics=topics)


def encode_positions(positions: Mapping[str, Position]) -> dict[str, Any]:
    """Return the next positions of a stream by topic as the checkpoint of a query stores them.

    >>> encode_positions({"rooms": Position(120, log_id="2026-01-31T08:00:00Z"), "doors": Position(1)})
    {'rooms': {'offset': 120, 'log': '2026-01-31T08:00:00Z'}, 'doors': {'offset': 1}}
    """
    return {
        topic: {"offset": position.offset, **({"log": position.log_id} if position.log_id else {})}
        for topic, position in positions.items()
    }


def decode_positions(stored: Mapping[str, Any]) -> dict[str, Position]:
    """Return the positions of a checkpoint.

    >>> decode_positions({"rooms": {"offset": 120, "log": "2026-01-31T08:00:00Z"}})["rooms"].offset
    120
    """
    positions = {}
    for topic, fields in stored.items():
        if not isinstance(fields, dict):
            detail = "a checkpoint of a version before 0.2: start the query with a new checkpointLocation"
            raise ConfigError(detail, topic=topic, value=fields)
        positions[topic] = Position(fields["offset"], log_id=fields.get("log", ""))
    return positions


def parse_offsets(text: str, default: int) -> TopicOffsets:
    """Parse offsets: earliest, latest, or a JSON object of offsets by topic. `default` applies to other topics."""
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return TopicOffsets(word)
    parsed = _parse_json(text)
    if not isinstance(parsed, dict) or not parsed:
        detail = 'must be earliest, latest, or an object of offsets by topic such as {"building.rooms": 120}'
        raise ConfigError(detail, value=text)
    for topic, offset in parsed.items():
        if isinstance(offset, bool) or not isinstance(offset, int) or not EARLIEST <= offset < 1 << 62:
            detail = "an offset must be a whole number, -2 for the earliest, -1 for the latest"
            raise ConfigError(detail, topic=topic, offset=offset)
    return TopicOffsets(default, parsed)


CONNECTION_OPTIONS = ("token", "user", "password", "credentials", "nkey", "ca", "certificate", "key", "hostname")
"""options that are passed to the broker client"""
MAX_PARTITIONS = 10_000
_TIME_LIMIT = 253_402_300_800_000
"""milliseconds since the epoch at the start of the year 10000; later times are refused"""
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
        reader = OptionReader(options)
        parsed = cls(
            servers=reader.read("servers", parse_servers),
            path=reader.read("path", str),
            topics=reader.read("subscribe", _parse_topics) or (),
            pattern=reader.read("subscribePattern", _parse_pattern),
            starting=reader.read("startingOffsets", partial(parse_offsets, default=EARLIEST)),
            ending=reader.read("endingOffsets", partial(parse_offsets, default=LATEST)) or TopicOffsets(LATEST),
            since=reader.read("startingTimestamp", _parse_time),
            max_offsets=reader.read("maxOffsetsPerTrigger", _parse_count),
            min_partitions=reader.read("minPartitions", partial(_parse_count, limit=MAX_PARTITIONS)),
            fail_on_data_loss=reader.read("failOnDataLoss", _parse_flag) is not False,
            demand=reader.read("tolerance", _parse_demand),
            columns=reader.read("columns", _parse_columns) or "events",
            state_location=reader.read("stateLocation", str),
            schemas=reader.read("expectSchemas", _parse_fingerprints) or {},
            connection=reader.connection(),
        )
        reader.check_names()
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
    """Reads single options. Names are not case-sensitive. Errors name the option."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._names: list[str] = []

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Parse an option; None if it is not given."""
        self._names.append(name)
        value = self._values.get(name.lower())
        try:
            return parse(value) if value else None
        except ConfigError as problem:
            raise ConfigError(problem.detail, option=name, **problem.facts) from None

    def connection(self) -> dict[str, str]:
        """Return the options of the connection."""
        return {name: self._values[name] for name in CONNECTION_OPTIONS if name in self._values}

    def check_names(self, ignored: Sequence[str] = ()) -> None:
        """Raise `ConfigError` for an option that was not read and is not `ignored`."""
        unknown = sorted(self._values.keys() - {name.lower() for name in (*self._names, *CONNECTION_OPTIONS, *ignored)})
        if unknown:
            raise ConfigError("no such option", option=unknown[0], choose_from=self._names)


def parse_servers(text: str) -> str:
    """Check the URL of the broker. Errors do not contain it, because it may have a password."""
    try:
        scheme = read_url(text).scheme
    except BadUrl as problem:
        raise ConfigError(f"{problem.detail}: write nats://host:4222 or tls://host:4222") from None
    if scheme not in ("nats", "tls"):
        raise ConfigError("tasks run in other processes: only nats:// and tls:// can be read", scheme=scheme)
    return text


def _parse_topics(text: str) -> tuple[str, ...]:
    return tuple(check_topic(name) for name in dict.fromkeys(map(str.strip, text.split(","))) if name)


def _parse_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise ConfigError(f"not a regular expression: {problem}", value=text) from None
    return text


def _parse_count(text: str, limit: int = 1 << 62) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text.strip()) or not 1 <= int(text) <= limit:
        raise ConfigError(f"must be a whole number from 1 to {limit}", value=text)
    return int(text)


def _parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError("must be true or false", value=text)
    return text.lower() == "true"


def _parse_time(text: str) -> float:
    """Parse milliseconds since the epoch, as in the Kafka source, or an ISO 8601 time with a zone."""
    if re.fullmatch(r"[0-9]{1,15}", text) and int(text) < _TIME_LIMIT:
        return int(text) / 1000
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        detail = "must be milliseconds since the epoch, or a time with its zone such as 2026-01-31T08:00:00+00:00"
        raise ConfigError(detail, value=text)
    return time.timestamp()


def _parse_demand(text: str) -> Demand:
    parsed = _parse_json(text)
    try:
        if isinstance(parsed, dict) and all(isinstance(value, int | float | str) for value in parsed.values()):
            return Demand(tolerance=parsed)
        if isinstance(parsed, int | float) and not isinstance(parsed, bool) and math.isfinite(parsed):
            return Demand(default_tolerance=parsed)
    except DemandError as problem:
        raise ConfigError(problem.detail, value=text) from None
    raise ConfigError('must be a number, or an object of numbers by property such as {"temperature": 0.5}', value=text)


def _parse_columns(text: str) -> Columns:
    if text not in get_args(Columns):
        raise ConfigError("must be events, frames or messages", value=text)
    return cast(Columns, text)


def _parse_fingerprints(text: str) -> dict[str, str]:
    parsed = _parse_json(text)
    if not isinstance(parsed, dict) or not all(isinstance(value, str) for value in parsed.values()):
        raise ConfigError("must be an object of fingerprints by topic", value=text)
    return parsed


def _parse_json(text: str) -> Any:
    """Return the parsed JSON; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
