"""Under which key a document lies.

>>> topic_key("building.rooms"), subscription_key("building.rooms", "hvac")
('topic.building.rooms', 'subscription.building.rooms.hvac')
>>> parse("schema.building.rooms.00ff00ff00ff00ff")
Key(kind='schema', topic='building.rooms', name='00ff00ff00ff00ff')

How a topic is published: what its owner decided, and what the registry made of that and of all subscriptions.

>>> Settings(max_silence=5).max_silence
5
>>> ConfigDocument("rooms", 3, wanted=True, demand=Demand({"t": 0.5}), format="json").link_config().version
3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

from thinwire.codec import Demand
from thinwire.codec.demand import Tolerance
from thinwire.codec.event_admission import LatePolicy
from thinwire.codec.predictors import by_name
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.codec.stream_config import StreamConfig
from thinwire.errors import ConfigError, RegistryError
from thinwire.schema import Schema
from thinwire.topics import document_validation as checks
from thinwire.topics.names import check_name_token, check_topic

SCHEMA, TOPIC, CONFIG, SUBSCRIPTION, PUBLISHER = "schema", "topic", "config", "subscription", "publisher"
_NAMED = frozenset({SCHEMA, SUBSCRIPTION, PUBLISHER})
_BARE = frozenset({TOPIC, CONFIG})
KINDS = _NAMED | _BARE


class Key(NamedTuple):
    """A key taken apart; `name` is a fingerprint, a subscription's identity or a publisher's name."""

    kind: str
    topic: str
    name: str = ""


def topic_key(topic: str) -> str:
    """Where the current schema of a topic and its settings are."""
    return f"{TOPIC}.{check_topic(topic)}"


def config_key(topic: str) -> str:
    """Where it says what the publishers of a topic shall do."""
    return f"{CONFIG}.{check_topic(topic)}"


def schema_key(topic: str, fingerprint: bytes | str) -> str:
    """Where one version of a topic's schema is."""
    text = fingerprint if isinstance(fingerprint, str) else fingerprint.hex()
    return f"{SCHEMA}.{check_topic(topic)}.{check_name_token(text, 'fingerprint')}"


def subscription_key(topic: str, identity: str) -> str:
    """Where a subscription is."""
    return f"{SUBSCRIPTION}.{check_topic(topic)}.{check_name_token(identity, 'identity')}"


def publisher_key(topic: str, name: str) -> str:
    """Where a publisher is."""
    return f"{PUBLISHER}.{check_topic(topic)}.{check_name_token(name, 'name')}"


def parse(key: str) -> Key:
    """The parts of a key; refuses what is none of ours."""
    kind, _, rest = key.partition(".")
    topic, _, name = rest.rpartition(".") if kind in _NAMED else (rest, "", "")
    try:
        if kind in KINDS:
            return Key(kind, check_topic(topic), check_name_token(name, "name") if kind in _NAMED else "")
    except ConfigError as problem:
        raise RegistryError(f"{key}: {problem.detail}", key=key) from None
    raise RegistryError(f"{key}: not a key of the registry", key=key, kinds=sorted(KINDS))


_LINK = ("format", "key_frame_interval", "max_silence", "audit_every", "late_policy", "max_sources")
"""what settings and configurations have in common with `StreamConfig`"""


@dataclass(frozen=True)
class Settings:
    """What the owner of a topic decides.

    retain: publish although nobody subscribes, for those who read the log later
    tolerance, default_tolerance: how well a retained log is kept, whoever subscribes; None: as well as the subscribers
        of the moment ask, exactly while there are none
    mode, predictor, min_interval: as in `Demand`; everything else as in `StreamConfig`
    dictionaries: look for bytes that messages share, and have publishers pack with them where that pays
    """

    retain: bool = False
    format: Literal["compact", "json"] = "compact"
    key_frame_interval: float = 3600.0
    max_silence: float = 30.0
    audit_every: int = 0
    late_policy: LatePolicy = "accept"
    max_sources: int = MAX_SOURCES
    mode: Literal["predict", "hold"] = "predict"
    predictor: str | Mapping[str, str] = "auto"
    min_interval: float = 0
    tolerance: Mapping[str, Tolerance] | None = None
    default_tolerance: float | None = None
    dictionaries: bool = False

    def __post_init__(self) -> None:
        checks.flag("retain", self.retain)
        checks.flag("dictionaries", self.dictionaries)
        _check_link(self)
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", checks.tolerances("tolerance", self.tolerance))
        if self.default_tolerance is not None:
            checks.number("default_tolerance", self.default_tolerance)
        _check_way(self.mode, self.predictor, self.min_interval)

    @property
    def way(self) -> dict[str, Any]:
        """What these settings say of the way of sending, as arguments of `Demand`."""
        return {"mode": self.mode, "predictor": self.predictor, "min_interval": self.min_interval}

    @property
    def link(self) -> dict[str, Any]:
        """What these settings say of the link, as arguments of `StreamConfig` or `ConfigDocument`."""
        return {name: getattr(self, name) for name in _LINK}


@dataclass(frozen=True)
class ConfigDocument:
    """What the publishers of a topic shall do; written by the registry alone.

    version: counts up with every change; wanted: does anybody want to know?
    dictionaries: pack with those that are announced
    """

    topic: str
    version: int = 1
    wanted: bool = False
    demand: Demand = field(default_factory=Demand)
    format: Literal["compact", "json"] = "compact"
    key_frame_interval: float = 3600.0
    max_silence: float = 30.0
    audit_every: int = 0
    late_policy: LatePolicy = "accept"
    max_sources: int = MAX_SOURCES
    dictionaries: bool = False

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        checks.count("version", self.version)
        checks.flag("wanted", self.wanted)
        checks.flag("dictionaries", self.dictionaries)
        _check_link(self)

    @classmethod
    def of(cls, topic: str, wanted: bool, link: StreamConfig) -> ConfigDocument:
        """The document that tells a link configuration."""
        return cls(topic, wanted=wanted, **{f.name: getattr(link, f.name) for f in fields(StreamConfig)})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ConfigDocument:
        """The configuration that a JSON object tells."""
        return checks.build(cls, {**document, "demand": demand_from(document.get("demand", {}))})

    @classmethod
    def decode(cls, value: bytes) -> ConfigDocument:
        """The configuration as it is stored; a `RegistryError` names the field where it cannot be one."""
        return cls.from_document(checks.read_object(value))

    @property
    def key(self) -> str:
        return config_key(self.topic)

    def link_config(self, schema: Schema | None = None) -> StreamConfig:
        """What a publisher does; with its schema, without what is said of properties that this schema has not."""
        demand = self.demand if schema is None else demand_for(schema, self.demand)
        return StreamConfig(self.version, demand, **{name: getattr(self, name) for name in _LINK})


def demand_for(schema: Schema, demand: Demand) -> Demand:
    """The part of a demand that concerns a schema: a topic's publishers may be a version behind or ahead."""
    travels = {p.name for p in schema.wire}
    tolerance = {name: value for name, value in demand.tolerance.items() if name in travels}
    if isinstance(demand.predictor, str):
        return replace(demand, tolerance=tolerance)
    predictor = {name: value for name, value in demand.predictor.items() if name in travels}
    return replace(demand, tolerance=tolerance, predictor=predictor)


def demand_from(value: Any) -> Demand:
    """A demand as it stands in a configuration."""
    given = checks.mapping("demand", value)
    known = {f.name: given[f.name] for f in fields(Demand) if f.name in given}
    checks.number("demand.default_tolerance", known.get("default_tolerance", 0))
    _check_way(known.get("mode", "predict"), known.get("predictor", "auto"), known.get("min_interval", 0), "demand.")
    return Demand(**known | {"tolerance": checks.tolerances("demand.tolerance", known.get("tolerance", {}))})


def _check_link(settings: Settings | ConfigDocument) -> None:
    """The limits of `StreamConfig`, field by field, so that a complaint can name the field."""
    for name in _LINK:
        try:
            StreamConfig(**{name: getattr(settings, name)})
        except (ConfigError, TypeError) as problem:
            detail = problem.detail if isinstance(problem, ConfigError) else f"{name} is of the wrong type"
            raise RegistryError(detail, field=name, given=getattr(settings, name)) from None


def _check_way(mode: Any, predictor: Any, min_interval: Any, place: str = "") -> None:
    checks.text(f"{place}mode", mode, "predict", "hold")
    checks.number(f"{place}min_interval", min_interval)
    named = {"": predictor} if isinstance(predictor, str) else checks.mapping(f"{place}predictor", predictor)
    for name, chosen in named.items():
        where = f"{place}predictor.{name}" if name else f"{place}predictor"
        checks.text(where, chosen)
        try:
            _ = chosen == "auto" or by_name(chosen, 2)
        except ConfigError as problem:
            raise RegistryError(problem.detail or problem.summary, field=where, given=chosen) from None
