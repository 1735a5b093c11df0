"""What really happened in a world: every event as it was published, every frame as it was made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from thinwire.codec import LinkConfig
from thinwire.codec.demand import tolerance_of
from thinwire.schema import Kind, Property, Schema
from thinwire.wire import FrameKind

Source = tuple[Any, ...]
_EARTH = 6_371_008.8


class Published(NamedTuple):
    """One event as it went in."""

    incarnation: int
    source: Source
    ordinal: int
    time: float
    version: int
    values: dict[str, Any]


@dataclass
class Truth:
    """One publisher's past, all its lives."""

    events: list[Published] = field(default_factory=list)
    by_source: dict[tuple[int, Source], list[Published]] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)
    configs: dict[tuple[int, int], LinkConfig] = field(default_factory=dict)
    payloads: set[bytes] = field(default_factory=set)
    incarnation: int = 0
    _chains: dict[tuple[int, int], int] = field(default_factory=dict)
    made: int = 0
    _tolerances: dict[tuple[int, int, str], Fraction] = field(default_factory=dict)

    def begin(self, incarnation: int, schema: Schema, config: LinkConfig) -> None:
        """A new life."""
        self.incarnation = incarnation
        self.schemas[incarnation] = schema
        self.made = 0
        self.configure(config)

    def configure(self, config: LinkConfig) -> None:
        """Another configuration from now on."""
        self.configs[self.incarnation, config.version] = config
        self.version = config.version

    def publish(self, values: dict[str, Any], now: float) -> None:
        """An event was accepted."""
        source = (values["sensor"],)
        past = self.by_source.setdefault((self.incarnation, source), [])
        event = Published(self.incarnation, source, len(past) + 1, now, self.version, values)
        past.append(event)
        self.events.append(event)

    def frame(self, raw: bytes) -> None:
        """A frame was made."""
        chain = self._chains.get((self.incarnation, self.made - 1), 0)
        self._chains[self.incarnation, self.made] = chain_after(raw, chain)
        self.made += 1

    def chain(self, incarnation: int, sequence: int) -> int | None:
        """The running check of this life after this frame."""
        return self._chains.get((incarnation, sequence))

    def find(self, incarnation: int, source: Source, ordinal: int) -> Published | None:
        past = self.by_source.get((incarnation, source), [])
        return past[ordinal - 1] if 0 < ordinal <= len(past) else None

    def tolerance(self, incarnation: int, versions: tuple[int, ...], p: Property) -> Fraction:
        """The widest tolerance that one of these configurations allows; an idle band is part of it."""
        return max(self._tolerance(incarnation, version, p) for version in versions)

    def _tolerance(self, incarnation: int, version: int, p: Property) -> Fraction:
        key = (incarnation, version, p.name)
        if key not in self._tolerances:
            self._tolerances[key] = _allowed(self.schemas[incarnation], p, self.configs[incarnation, version])
        return self._tolerances[key]


def chain_after(raw: bytes, chain: int) -> int:
    """The running check after a frame; key frames start it anew."""
    head = raw[0]
    size = 3 + bool(head & 0x10) + bool(head & 0x20)
    start = 0 if head & 0x0F == FrameKind.KEY else chain
    return crc32(raw[size:], crc32(raw[: size - 1], start))


def _allowed(schema: Schema, p: Property, config: LinkConfig) -> Fraction:
    asked = tolerance_of(schema, p, config.demand)
    idle = p.idle_band is not None and p.name not in config.demand.tolerance
    return asked + decimal(p.idle_band) if idle and p.idle_band else asked


@lru_cache(maxsize=8_192)
def decimal(number: float) -> Fraction:
    """The decimal that is written, not the double next to it."""
    return Fraction(str(number))


def distance(p: Property, seen: Any, actual: Any) -> Fraction | float:
    """How far a value is off, exactly; infinite where no number says how far."""
    if seen == actual and type(seen) is type(actual):
        return 0
    if seen is None or actual is None or isinstance(actual, str | bool | bytes | dict | datetime):
        return math.inf
    if p.kind is Kind.GEO:
        same = seen[0] == actual[0] and (seen[1] - actual[1]) % 360 == 0
        return 0 if same else _metres(seen, actual)
    if p.kind is Kind.ARRAY:
        pairs = list(zip(seen, actual, strict=True))
        return max(abs(decimal(a) - decimal(b)) for a, b in pairs)
    if p.kind is Kind.OPAQUE:
        return 0 if seen == actual else math.inf
    return abs(Fraction(seen) - Fraction(actual)) if p.kind is Kind.FLOAT else abs(decimal(seen) - decimal(actual))


def _metres(a: Any, b: Any) -> float:
    """The great-circle distance, by another formula than the one under test."""
    (north, east), (south, west) = (map(math.radians, position) for position in (a, b))
    half = math.sin((north - south) / 2) ** 2 + math.cos(north) * math.cos(south) * math.sin((east - west) / 2) ** 2
    return 2 * _EARTH * math.asin(math.sqrt(half))
