"""Plans: how topics shall be published, in a file that people can read and change.

`thinwire analyze` writes one; `thinwire up --plan` registers its topics, and publishers take from it what they decide
themselves. A topic's schema stands in the plan, property by property, or in a file beside it (`schema = "rooms.ttl"`).

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
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from thinwire.brokers.protocol import Bucket
from thinwire.codec import Demand, StreamConfig, resolve
from thinwire.errors import PlanError, SchemaError, ThinwireError
from thinwire.schema import Schema, from_turtle
from thinwire.topics.names import check_topic
from thinwire.topics.registry_client import register_schema
from thinwire.topics.topic_documents import TopicDocument
from thinwire.topics.topic_settings import Settings

VERSION = 1
MAX_PLAN = 8 << 20
"""bytes of a plan, or of a schema beside it"""
LINGER, MAX_BATCH = 0.005, 65_536

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SETTINGS = tuple(f.name for f in fields(Settings))
_TOPIC = ("schema", "schema_version", "properties", "linger", "max_batch", "expected", *_SETTINGS)


@dataclass(frozen=True)
class TopicPlan:
    """How one topic shall be published.

    settings: what the registry is told; linger, max_batch: what its publishers decide themselves
    expected: what an analysis expects of it, by name, such as the share of bytes that need not travel
    """

    schema: Schema
    settings: Settings = field(default_factory=lambda: Settings(tolerance={}))
    linger: float = LINGER
    max_batch: int = MAX_BATCH
    expected: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_topic(self.schema.name)
        _number("linger", self.linger, 0)
        if isinstance(self.max_batch, bool) or not isinstance(self.max_batch, int) or self.max_batch < 1:
            raise PlanError("max_batch must be a whole number of bytes above zero", field="max_batch")
        for name, value in self.expected.items():
            _number(f"expected.{name}", value, -math.inf)
        resolve(self.schema, self._demand)

    @property
    def link_config(self) -> StreamConfig:
        """What a publisher does where no registry decides."""
        return StreamConfig(version=0, demand=self._demand, **self.settings.link)

    @property
    def publishing(self) -> dict[str, Any]:
        """The plan as arguments of `bus.publisher`."""
        return {
            "schema": self.schema,
            "config": self.link_config,
            "linger": self.linger,
            "max_batch": self.max_batch,
        }

    @property
    def _demand(self) -> Demand:
        settings = self.settings
        return Demand(settings.tolerance or {}, settings.default_tolerance or 0, **settings.way)


@dataclass(frozen=True)
class Plan:
    """Topics by name; `command`: what made the plan."""

    topics: Mapping[str, TopicPlan]
    command: str = ""

    def topic(self, name: str) -> TopicPlan:
        """The plan of a topic."""
        if name not in self.topics:
            raise PlanError("the plan has no such topic", topic=name, choose_from=sorted(self.topics))
        return self.topics[name]


async def register_plan(bucket: Bucket, plan: Plan) -> list[TopicDocument]:
    """Make the topics of a plan known, with their settings."""
    return [await register_schema(bucket, topic.schema, topic.settings) for topic in plan.topics.values()]


def load_plan(path: Path) -> Plan:
    """The plan in a file; a `PlanError` names the field that cannot be right."""
    return read_plan(_text_of(path, PlanError), path.parent)


def read_plan(text: str, folder: Path | None = None) -> Plan:
    """The plan that a text tells; schemas in files of their own are looked for in `folder`."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise PlanError(f"not TOML: {problem}") from None
    if document.get("version") != VERSION:
        raise PlanError(
            f"version must be {VERSION}: a newer thinwire may read others",
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
    return Plan({name: _topic(name, given, folder) for name, given in topics.items()}, command)


def schema_in(path: Path) -> Schema:
    """The schema in a file: JSON if its name ends so, else Turtle."""
    text = _text_of(path, SchemaError)
    try:
        return Schema.from_document(json.loads(text)) if path.suffix == ".json" else from_turtle(text)
    except ValueError as problem:
        raise SchemaError(f"not a schema: {problem}", file=str(path)) from None


def write_plan(plan: Plan) -> str:
    """The plan as TOML."""
    lines = [f"version = {VERSION}"]
    if plan.command:
        lines.append(f"command = {_toml(plan.command)}")
    for name, topic in plan.topics.items():
        lines += ["", *_topic_lines(f"topics.{_toml(name)}", topic)]
    return "\n".join(lines) + "\n"


def _topic_lines(table: str, topic: TopicPlan) -> list[str]:
    settings, default = topic.settings, Settings()
    told = {name: getattr(settings, name) for name in _SETTINGS if name not in ("tolerance", "predictor")}
    always = ("retain", "format", "mode", "key_frame_interval", "max_silence")
    kept = {name: value for name, value in told.items() if name in always or value != getattr(default, name)}
    lines = [f"[{table}]", f"linger = {_toml(topic.linger)}", f"max_batch = {topic.max_batch}"]
    lines += [f"{name} = {_toml(value)}" for name, value in (*kept.items(), ("predictor", settings.predictor))]
    lines += [f"schema_version = {topic.schema.version}", "properties = ["]
    lines += [f"    {_toml(p.to_document())}," for p in topic.schema]
    lines.append("]")
    for part, values in (("tolerance", settings.tolerance), ("expected", topic.expected)):
        if values is not None:
            lines += ["", f"[{table}.{part}]", *(f"{_name(name)} = {_toml(value)}" for name, value in values.items())]
    return lines


def _name(name: str) -> str:
    """A key, in quotes only where it needs them."""
    return name if _BARE.fullmatch(name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_name(name)} = {_toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        # a JSON text is a TOML text, but for the one control character that JSON lets pass
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _topic(name: str, given: Any, folder: Path | None) -> TopicPlan:
    place = f'topics."{name}"'
    if not isinstance(given, dict):
        raise PlanError("a topic is a table", field=place)
    _refuse_unknown(given, _TOPIC, f"{place}.")
    try:
        schema = _schema(name, given, folder)
        told = {"tolerance": {}} | {key: given[key] for key in _SETTINGS if key in given}
        others = {key: given[key] for key in ("linger", "max_batch") if key in given}
        return TopicPlan(schema, Settings(**told), expected=_table(given.get("expected", {})), **others)
    except ThinwireError as problem:
        facts = {key: value for key, value in problem.facts.items() if key != "field"}
        told_field = f"{place}.{problem.facts['field']}" if "field" in problem.facts else place
        raise PlanError(problem.detail or problem.summary, field=told_field, **facts) from None


def _schema(name: str, given: Mapping[str, Any], folder: Path | None) -> Schema:
    if ("schema" in given) == ("properties" in given):
        raise PlanError('give the schema: properties = [...], or schema = "FILE"', field="schema")
    if "properties" in given:
        version = given.get("schema_version", 1)
        return Schema.from_document({"name": name, "version": version, "properties": given["properties"]})
    if not isinstance(given["schema"], str):
        raise PlanError("schema must be the name of a file", field="schema")
    schema = schema_in((folder or Path()) / given["schema"])
    if schema.name != name:
        raise PlanError("a topic has the name of its schema", field="schema", schema=schema.name)
    return schema


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PlanError("expected must be a table of numbers", field="expected")
    return value


def _number(name: str, value: Any, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise PlanError(f"{name} must be a number{', zero or more' if least == 0 else ''}", field=name, given=value)


def _refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise PlanError("unknown field", field=f"{place}{unknown[0]}", choose_from=sorted(known))


def _text_of(path: Path, error: type[ThinwireError]) -> str:
    if path.stat().st_size > MAX_PLAN:
        raise error("the file is above the limit", file=str(path), limit=MAX_PLAN)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise error("not a text in UTF-8", file=str(path)) from None
