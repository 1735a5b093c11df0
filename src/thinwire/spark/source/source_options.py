"""Places in the logs of topics, as options and checkpoints write them: JSON objects of offsets by topic.

An offset is the number of the next message to read; -2 stands for the earliest that the log holds, -1 for its end.

>>> place = read_places("startingOffsets", '{"rooms": 120, "doors": -2}')
>>> place.of("rooms"), place.of("doors")
(120, -2)
>>> read_places("startingOffsets", "latest").of("rooms")
-1

The options of the source, read once. An option that cannot be right is named as it is written.

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, cast, get_args

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol import Span
from thinwire.codec import Demand
from thinwire.errors import BadUrl, ConfigError, DemandError
from thinwire.topics.names import check_topic

EARLIEST, LATEST = -2, -1
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class TopicOffsets:
    """An offset for every topic: its own, or the one for all."""

    default: int
    by_topic: Mapping[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int:
        """The offset of a topic, as it was written."""
        return self.by_topic.get(topic, self.default)

    def within(self, topic: str, span: Span) -> int:
        """The offset of a topic in its log: the next message to read."""
        offset = self.of(topic)
        if offset == EARLIEST:
            return span.first
        return span.last + 1 if offset == LATEST else offset

    def check(self, option: str, topics: list[str]) -> None:
        """Refuse offsets of topics that are not read."""
        unknown = sorted(set(self.by_topic) - set(topics))
        if unknown:
            raise ConfigError("an offset of a topic that is not read", option=option, topic=unknown[0], topics=topics)


class Reached(NamedTuple):
    """How far a stream has come in a topic: the next message to read, and of which log.

    log: when that was made (`Span.made`), for a log that is deleted and made again counts from 1 again; empty where
    nobody knows
    """

    offset: int
    log: str = ""


def written(reached: Mapping[str, Reached]) -> dict[str, Any]:
    """As the checkpoint of a query holds it.

    >>> written({"rooms": Reached(120, "2026-01-31T08:00:00Z"), "doors": Reached(1)})
    {'rooms': {'offset': 120, 'log': '2026-01-31T08:00:00Z'}, 'doors': {'offset': 1}}
    """
    return {
        topic: {"offset": place.offset, "log": place.log} if place.log else {"offset": place.offset}
        for topic, place in reached.items()
    }


def read_written(found: Mapping[str, Any]) -> dict[str, Reached]:
    """What `written` wrote; plain offsets, as checkpoints once had them, do not tell of which log they are.

    >>> read_written({"rooms": {"offset": 120, "log": "2026-01-31T08:00:00Z"}, "doors": 7})["doors"]
    Reached(offset=7, log='')
    """
    return {topic: Reached(**place) if isinstance(place, dict) else Reached(place) for topic, place in found.items()}


def read_places(option: str, text: str) -> TopicOffsets:
    """What an option says: earliest, latest, or an object."""
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return TopicOffsets(word)
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict) or not asked:
        detail = 'earliest, latest, or an object of offsets by topic such as {"building.rooms": 120}'
        raise ConfigError(detail, option=option, value=text)
    for topic, offset in asked.items():
        if isinstance(offset, bool) or not isinstance(offset, int) or not EARLIEST <= offset < 1 << 62:
            detail = "an offset is a whole number, -2 for the earliest, -1 for the latest"
            raise ConfigError(detail, option=option, topic=topic, offset=offset)
    return TopicOffsets(EARLIEST if option == "startingOffsets" else LATEST, asked)


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
"""options of the connection, passed on as they are"""
MAX_PARTITIONS = 10_000
_END = 253_402_300_800_000
"""milliseconds since the epoch at which years get a fifth digit"""
Columns = Literal["events", "frames", "messages"]
"""a row is an event, a frame as it travelled, or a message as it lies in the log"""


@dataclass(frozen=True)
class SourceOptions:
    """What was asked for.

    servers, path: where the logs are: at a broker, or in a recording
    topics, pattern: which; starting, ending: places by topic, or one for all; since: seconds since the epoch
    state_location: where readers of a stream keep the state of links between batches
    schemas: fingerprints (hex) by topic; a stream ends with `SchemaChanged` when the registry has another one
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
        """The options as Spark hands them over, whatever case their names have."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(given.keys() - {name.lower() for name in (*NAMES, *CREDENTIALS)})
        if unknown:
            raise ConfigError("no such option", option=unknown[0], choose_from=list(NAMES))
        asked = OptionReader(given)
        made = cls(
            servers=asked.servers(),
            path=asked.text("path"),
            topics=asked.topics(),
            pattern=asked.pattern(),
            starting=asked.places("startingOffsets"),
            ending=asked.places("endingOffsets") or TopicOffsets(LATEST),
            since=asked.instant("startingTimestamp"),
            max_offsets=asked.count("maxOffsetsPerTrigger"),
            min_partitions=asked.count("minPartitions", MAX_PARTITIONS),
            fail_on_data_loss=asked.flag("failOnDataLoss", True),
            demand=asked.demand(),
            columns=asked.columns(),
            state_location=asked.text("stateLocation"),
            schemas=asked.fingerprints("expectSchemas"),
            connection={name: given[name] for name in CREDENTIALS if name in given},
        )
        made._check()
        return made

    def __repr__(self) -> str:
        place = read_url(self.servers).shown if self.servers is not None else self.path
        which = f"topics={list(self.topics)}" if self.topics else f"pattern={self.pattern!r}"
        return f"SourceOptions({place}, {which}, columns={self.columns!r})"

    def _check(self) -> None:
        if (self.servers is None) == (self.path is None):
            raise ConfigError("give either servers or path", option="servers")
        if not self.topics and self.pattern is None:
            raise ConfigError("name the topics with subscribe or subscribePattern", option="subscribe")
        if self.topics and self.pattern is not None:
            raise ConfigError("give either subscribe or subscribePattern", option="subscribePattern")
        if self.demand is not None and self.columns != "events":
            raise ConfigError(f"{self.columns} are not held to a tolerance: use columns=events", option="tolerance")


class OptionReader:
    """One option at a time, out of lower-cased names."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower()) or None

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
            detail = "tasks run in other processes: only a broker on the network can be read, nats:// or tls://"
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

    def places(self, name: str) -> TopicOffsets | None:
        value = self.text(name)
        return read_places(name, value) if value is not None else None

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
        """Milliseconds since the epoch, as Kafka's source takes them, or a written instant with its zone."""
        value = self.text(name)
        if value is None:
            return None
        if re.fullmatch(r"[0-9]{1,15}", value) and int(value) < _END:
            return int(value) / 1000
        try:
            written = datetime.fromisoformat(value)
        except ValueError:
            written = None
        if written is None or written.tzinfo is None:
            detail = "milliseconds since the epoch, or an instant with its zone such as 2026-01-31T08:00:00+00:00"
            raise ConfigError(detail, option=name, value=value)
        return written.astimezone(UTC).timestamp()

    def demand(self) -> Demand | None:
        value = self.text("tolerance")
        if value is None:
            return None
        try:
            asked = json.loads(value)
        except ValueError:
            asked = None
        try:
            return _demand(asked)
        except DemandError as problem:
            raise ConfigError(problem.detail, option="tolerance", value=value) from None

    def fingerprints(self, name: str) -> dict[str, str]:
        value = self.text(name)
        try:
            asked = json.loads(value) if value is not None else {}
        except ValueError:
            asked = None
        if not isinstance(asked, dict) or not all(isinstance(text, str) for text in asked.values()):
            raise ConfigError("an object of fingerprints by topic", option=name, value=value)
        return asked

    def columns(self) -> Columns:
        value = self.text("columns") or "events"
        for known in get_args(Columns):
            if value == known:
                return cast(Columns, known)
        raise ConfigError("events, frames or messages", option="columns", value=value)


def _demand(asked: Any) -> Demand:
    if isinstance(asked, dict) and all(isinstance(value, int | float | str) for value in asked.values()):
        return Demand(tolerance=asked)
    if isinstance(asked, int | float) and not isinstance(asked, bool) and math.isfinite(asked):
        return Demand(default_tolerance=asked)
    raise DemandError('a number, or an object of numbers by property such as {"temperature": 0.5}')
