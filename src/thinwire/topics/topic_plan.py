"""Plans: a TOML file with the schema, settings and publisher options of topics.

`thinwire analyze` writes a plan and `thinwire up --plan` registers its topics. Publishers read their batching options
from it. A topic's schema is in the plan, property by property, or in a file beside it (`schema = "rooms.ttl"`).

>>> from thinwire.schema import Property
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> plan = Plan({"rooms": TopicPlan(rooms, Settings(tolerance={"t": 0.5}), linger=0.1)})
>>> read_plan(write_plan(plan)) == plan
True
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from thinwire.brokers.protocol import Bucket
from thinwire.codec import StreamConfig, resolve
from thinwire.errors import PlanError, SchemaError, ThinwireError
from thinwire.schema import Schema, from_turtle
from thinwire.topics.document import Document, stored_fields
from thinwire.topics.document_fields import Number, mapping_of, number, whole
from thinwire.topics.names import check_topic
from thinwire.topics.registry_client import register_schema
from thinwire.topics.topic_documents import TopicDocument
from thinwire.topics.topic_settings import Settings

VERSION = 1
MAX_PLAN = 8 << 20
"""bytes of a plan, or of a schema file"""
LINGER, MAX_BATCH = 0.005, 65_536

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SETTINGS = tuple(stored.name for stored in stored_fields(Settings))
_TOPIC = ("schema", "schema_version", "properties", "linger", "max_batch", "expected", *_SETTINGS)


@dataclass(frozen=True)
class TopicPlan(Document):
    """How one topic is published.

    settings: settings to register; linger, max_batch: batching of its publishers
    expected: figures that an analysis expects, by name, such as the share of bytes saved
    """

    error: ClassVar[type[ThinwireError]] = PlanError

    schema: Annotated[Schema, lambda field, value: value]
    settings: Settings = field(default_factory=lambda: Settings(tolerance={}))
    linger: Number = LINGER
    max_batch: Annotated[int, whole(1)] = MAX_BATCH
    expected: Annotated[Mapping[str, float], mapping_of(number(-math.inf))] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_topic(self.schema.name)
        resolve(self.schema, self.settings.demand)

    @property
    def stream_config(self) -> StreamConfig:
        """The stream configuration of a publisher without a registry."""
        return StreamConfig(version=0, demand=self.settings.demand, **self.settings.stream)

    @property
    def publishing(self) -> dict[str, Any]:
        """The plan as arguments of `bus.publisher`."""
        return {
            "schema": self.schema,
            "config": self.stream_config,
            "linger": self.linger,
            "max_batch": self.max_batch,
        }


@dataclass(frozen=True)
class Plan:
    """Plans of topics by name; `command`: the command line that wrote the plan."""

    topics: Mapping[str, TopicPlan]
    command: str = ""

    def topic(self, name: str) -> TopicPlan:
        """The plan of a topic; `PlanError` if there is none."""
        if name not in self.topics:
            raise PlanError("the plan has no such topic", topic=name, choose_from=sorted(self.topics))
        return self.topics[name]


async def register_plan(bucket: Bucket, plan: Plan) -> list[TopicDocument]:
    """Register the topics of a plan with their settings."""
    return [await register_schema(bucket, topic.schema, topic.settings) for topic in plan.topics.values()]


def load_plan(path: Path) -> Plan:
    """Read a plan from a file; a `PlanError` names the invalid field."""
    return read_plan(_read_text(path, PlanError), path.parent)


def read_plan(text: str, folder: Path | None = None) -> Plan:
    """Read a plan from TOML. Paths of schema files are relative to `folder`."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise PlanError(f"not TOML: {problem}") from None
    if document.get("version") != VERSION:
        raise PlanError(
            f"version must be {VERSION}; other versions need another version of thinwire",
            field="version",
            given=document.get("version"),
        )
    _refuse_unknown(document, ("version", "command", "topics"), "")
    topics = document.get("topics")
    if not isinstance(topics, dict) or not topics:
        raise PlanError('a plan needs topics: [topics."building.rooms"]', field="topics")
    command = document.get("command", "")
    if not isinstance(command, str):
        raise PlanError("command must be a text", field="command")
    return Plan({name: _read_topic(name, given, folder) for name, given in topics.items()}, command)


def read_schema_file(path: Path) -> Schema:
    """Read a schema from a file: JSON if the name ends with .json, otherwise Turtle."""
    text = _read_text(path, SchemaError)
    try:
        return Schema.from_document(json.loads(text)) if path.suffix == ".json" else from_turtle(text)
    except ValueError as problem:
        raise SchemaError(f"not a schema: {problem}", file=str(path)) from None


def write_plan(plan: Plan) -> str:
    """Write a plan as TOML."""
    lines = [f"version = {VERSION}"]
    if plan.command:
        lines.append(f"command = {_toml(plan.command)}")
    for name, topic in plan.topics.items():
        lines += ["", *_topic_lines(f"topics.{_toml(name)}", topic)]
    return "\n".join(lines) + "\n"


def _topic_lines(table: str, topic: TopicPlan) -> list[str]:
    settings, default = topic.settings, Settings()
    values = {name: getattr(settings, name) for name in _SETTINGS if name not in ("tolerance", "predictor")}
    always = ("retain", "format", "mode", "key_frame_interval", "max_silence")
    written = {name: value for name, value in values.items() if name in always or value != getattr(default, name)}
    lines = [f"[{table}]", f"linger = {_toml(topic.linger)}", f"max_batch = {topic.max_batch}"]
    lines += [f"{name} = {_toml(value)}" for name, value in (*written.items(), ("predictor", settings.predictor))]
    lines += [f"schema_version = {topic.schema.version}", "properties = ["]
    lines += [f"    {_toml(p.to_document())}," for p in topic.schema]
    lines.append("]")
    for part, entries in (("tolerance", settings.tolerance), ("expected", topic.expected)):
        if entries is not None:
            lines += ["", f"[{table}.{part}]", *(f"{_key(name)} = {_toml(value)}" for name, value in entries.items())]
    return lines


def _key(name: str) -> str:
    """A TOML key, quoted if necessary."""
    return name if _BARE.fullmatch(name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        # JSON strings are TOML strings, except that TOML does not allow the control character DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _read_topic(name: str, given: Any, folder: Path | None) -> TopicPlan:
    table = f'topics."{name}"'
    if not isinstance(given, dict):
        raise PlanError("a topic is a table", field=table)
    _refuse_unknown(given, _TOPIC, f"{table}.")
    try:
        schema = _read_schema(name, given, folder)
        settings = Settings(**{"tolerance": {}} | {key: given[key] for key in _SETTINGS if key in given})
        others = {key: given[key] for key in ("linger", "max_batch", "expected") if key in given}
        return TopicPlan(schema, settings, **others)
    except ThinwireError as problem:
        facts = {key: value for key, value in problem.facts.items() if key != "field"}
        field_path = f"{table}.{problem.facts['field']}" if "field" in problem.facts else table
        raise PlanError(problem.detail or problem.summary, field=field_path, **facts) from None


def _read_schema(name: str, given: Mapping[str, Any], folder: Path | None) -> Schema:
    if ("schema" in given) == ("properties" in given):
        raise PlanError('give the schema: properties = [...], or schema = "FILE"', field="schema")
    if "properties" in given:
        version = given.get("schema_version", 1)
        return Schema.from_document({"name": name, "version": version, "properties": given["properties"]})
    if not isinstance(given["schema"], str):
        raise PlanError("schema must be the name of a file", field="schema")
    schema = read_schema_file((folder or Path()) / given["schema"])
    if schema.name != name:
        raise PlanError("a topic has the name of its schema", field="schema", schema=schema.name)
    return schema


def _refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...], prefix: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise PlanError("unknown field", field=f"{prefix}{unknown[0]}", choose_from=sorted(known))


def _read_text(path: Path, error: type[ThinwireError]) -> str:
    if path.stat().st_size > MAX_PLAN:
        raise error("the file is above the limit", file=str(path), limit=MAX_PLAN)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise error("not a text in UTF-8", file=str(path)) from None
