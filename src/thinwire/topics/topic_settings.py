"""Settings of a topic, made by its owner, and the configuration that the registry derives for its publishers.

>>> Settings(max_silence=5).max_silence
5
>>> ConfigDocument("rooms", 3, wanted=True, demand=Demand({"t": 0.5}), format="json").stream["format"]
'json'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal

from thinwire.codec import Demand
from thinwire.codec.event_admission import LatePolicy
from thinwire.codec.predictors import by_name
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.codec.stream_config import KEY_FRAME_INTERVAL, MAX_SILENCE, StreamConfig
from thinwire.schema import Schema
from thinwire.topics.document import Document, nested
from thinwire.topics.document_fields import (
    Count,
    Number,
    Positive,
    Tolerances,
    Topic,
    convert,
    mapping_of,
    refuse,
    text,
    whole,
)
from thinwire.topics.names import config_key

_check_predictor = convert(text(), lambda name: name if name == "auto" else by_name(name, 2) and name)
_check_predictors = mapping_of(_check_predictor)
Predictors = Annotated[
    str | Mapping[str, str],
    lambda field, value: (_check_predictor if isinstance(value, str) else _check_predictors)(field, value),
]
"""a predictor for all properties, or one per property"""


@dataclass(frozen=True, kw_only=True)
class StreamSettings(Document):
    """The fields that settings and configurations share with `StreamConfig`."""

    format: Literal["compact", "json"] = "compact"
    key_frame_interval: Positive = KEY_FRAME_INTERVAL
    max_silence: Positive = MAX_SILENCE
    audit_every: Count = 0
    late_policy: LatePolicy = "accept"
    max_sources: Annotated[int, whole(1, MAX_SOURCES)] = MAX_SOURCES

    @property
    def stream(self) -> dict[str, Any]:
        """These fields as arguments of `StreamConfig` or `ConfigDocument`."""
        return {f.name: getattr(self, f.name) for f in fields(StreamSettings) if f.name != "unknown"}


@dataclass(frozen=True)
class Settings(StreamSettings):
    """What the owner of a topic decides.

    retain: publish and store without subscriptions, for later readers of the log
    tolerance, default_tolerance: tolerance of a retained log; None: the tolerance budget of the current subscriptions,
        exact without subscriptions
    mode, predictor, min_interval: as in `Demand`; the inherited fields: as in `StreamConfig`
    dictionaries: train dictionaries on the topic, and let publishers pack with them if that reduces bytes
    """

    retain: bool = False
    mode: Literal["predict", "hold"] = "predict"
    predictor: Predictors = "auto"
    min_interval: Number = 0
    tolerance: Tolerances | None = None
    default_tolerance: Number | None = None
    dictionaries: bool = False

    @property
    def encoding(self) -> dict[str, Any]:
        """Mode, predictor and minimum interval as arguments of `Demand`."""
        return {"mode": self.mode, "predictor": self.predictor, "min_interval": self.min_interval}

    @property
    def demand(self) -> Demand:
        """The demand of a retained log without subscriptions."""
        return Demand(self.tolerance or {}, self.default_tolerance or 0, **self.encoding)

    @property
    def has_demand(self) -> bool:
        """True if the log is retained and the settings state its tolerance."""
        return self.retain and (self.tolerance is not None or self.default_tolerance is not None)


@dataclass(frozen=True)
class _DemandDocument(Document):
    """The stored form of a `Demand`."""

    tolerance: Tolerances = field(default_factory=dict)
    default_tolerance: Number = 0
    mode: Literal["predict", "hold"] = "predict"
    predictor: Predictors = "auto"
    min_interval: Number = 0
    changes: bool = False


def _check_demand(field: str, value: Any) -> Demand:
    if isinstance(value, Demand):
        return value
    stored: _DemandDocument = nested(_DemandDocument)(field, value)
    if stored.changes and stored.mode != "hold":
        refuse(f"{field}.changes", "false unless mode is hold", stored.changes)
    return Demand(**{f.name: getattr(stored, f.name) for f in fields(Demand)})


@dataclass(frozen=True)
class ConfigDocument(StreamSettings):
    """Configuration of a topic's publishers. Only the registry writes it.

    version: increases with every change
    wanted: publishers send events; False without subscriptions, unless the topic is retained
    dictionaries: pack messages with the announced dictionaries
    """

    topic: Topic
    version: Count = 1
    wanted: bool = False
    demand: Annotated[Demand, _check_demand] = field(default_factory=Demand)
    dictionaries: bool = False

    @property
    def key(self) -> str:
        return config_key(self.topic)

    def stream_config(self, schema: Schema) -> StreamConfig:
        """The stream configuration of a publisher that writes `schema`."""
        return StreamConfig(self.version, demand_for(schema, self.demand), **self.stream)


def demand_for(schema: Schema, demand: Demand) -> Demand:
    """The part of a demand on properties of `schema`: publishers of a topic may have older or newer versions."""
    sent = {p.name for p in schema.wire}
    tolerance = {name: value for name, value in demand.tolerance.items() if name in sent}
    if isinstance(demand.predictor, str):
        return replace(demand, tolerance=tolerance)
    predictor = {name: value for name, value in demand.predictor.items() if name in sent}
    return replace(demand, tolerance=tolerance, predictor=predictor)
