"""The options of the source, read once. An option that cannot be right is named as it is written.

>>> options = Options.read({"servers": "nats://ada:secret@broker:4222", "subscribe": "building.rooms, doors"})
>>> options.topics, options.fail_on_data_loss
(('building.rooms', 'doors'), True)
>>> options
Options(nats://broker:4222, topics=['building.rooms', 'doors'], columns='events')
>>> Options.read({"servers": "nats://broker:4222"})
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
from typing import Any, Literal, cast, get_args

from thinwire.brokers.broker_url import read_url
from thinwire.codec import Demand
from thinwire.errors import BadUrl, ConfigError, DemandError
from thinwire.spark.source.source_options import LATEST, Place, read_places
from thinwire.topics.names import check_topic

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
class Options:
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
    starting: Place | None
    ending: Place
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
    def read(cls, options: Mapping[str, str]) -> Options:
        """The options as Spark hands them over, whatever case their names have."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(given.keys() - {name.lower() for name in (*NAMES, *CREDENTIALS)})
        if unknown:
            raise ConfigError("no such option", option=unknown[0], choose_from=list(NAMES))
        asked = Asked(given)
        made = cls(
            servers=asked.servers(),
            path=asked.text("path"),
            topics=asked.topics(),
            pattern=asked.pattern(),
            starting=asked.places("startingOffsets"),
            ending=asked.places("endingOffsets") or Place(LATEST),
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
        return f"Options({place}, {which}, columns={self.columns!r})"

    def _check(self) -> None:
        if (self.servers is None) == (self.path is None):
            raise ConfigError("give either servers or path", option="servers")
        if not self.topics and self.pattern is None:
            raise ConfigError("name the topics with subscribe or subscribePattern", option="subscribe")
        if self.topics and self.pattern is not None:
            raise ConfigError("give either subscribe or subscribePattern", option="subscribePattern")
        if self.demand is not None and self.columns != "events":
            raise ConfigError(f"{self.columns} are not held to a tolerance: use columns=events", option="tolerance")


class Asked:
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

    def places(self, name: str) -> Place | None:
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
