"""What publishers published, and exact distances between values: shared by the worlds.

>>> from thinwire.schema import Property
>>> distance(Property("t", "number", step="0.1"), 0.3, 0.1), distance(Property("on", "boolean"), True, False)
(Fraction(1, 5), inf)
"""

from __future__ import annotations

import math
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from thinwire.codec import StreamConfig
from thinwire.codec.demand import tolerance_of
from thinwire.schema import Kind, Property, Schema

Source = tuple[Any, ...]
EARTH_RADIUS = 6_371_008.8


class PublishedEvent(NamedTuple):
    """One event as its publisher received it; version: of the configuration at that time."""

    incarnation: int
    source: Source
    ordinal: int
    time: float
    version: int
    values: dict[str, Any]


class PublishedEvents:
    """The events, schemas and configurations of one publisher, all incarnations."""

    def __init__(self) -> None:
        self.events: list[PublishedEvent] = []
        self.schemas: dict[int, Schema] = {}
        self.configs: dict[tuple[int, int], StreamConfig] = {}
        self._by_source: dict[tuple[int, Source], list[PublishedEvent]] = {}
        self._tolerances: dict[tuple[int, int, str], Fraction] = {}

    def begin(self, incarnation: int, schema: Schema, config: StreamConfig) -> None:
        """Add an incarnation."""
        self.schemas[incarnation] = schema
        self.configure(incarnation, config)

    def configure(self, incarnation: int, config: StreamConfig) -> None:
        """Add a configuration of an incarnation."""
        self.configs[incarnation, config.version] = config

    def add(self, incarnation: int, version: int, values: dict[str, Any], now: float) -> None:
        """Add an event that the publisher accepted."""
        source = tuple(values[p.name] for p in self.schemas[incarnation].dimensions)
        past = self._by_source.setdefault((incarnation, source), [])
        event = PublishedEvent(incarnation, source, len(past) + 1, now, version, values)
        past.append(event)
        self.events.append(event)

    def find(self, incarnation: int, source: Source, ordinal: int) -> PublishedEvent | None:
        past = self._by_source.get((incarnation, source), [])
        return past[ordinal - 1] if 0 < ordinal <= len(past) else None

    def tolerance(self, incarnation: int, versions: set[int], p: Property) -> Fraction:
        """Return the largest tolerance of a property in some configurations, including its idle band."""
        return max(self._tolerance(incarnation, version, p) for version in versions)

    def _tolerance(self, incarnation: int, version: int, p: Property) -> Fraction:
        key = (incarnation, version, p.name)
        if key not in self._tolerances:
            demand = self.configs[incarnation, version].demand
            tolerance = tolerance_of(self.schemas[incarnation], p, demand)
            self._tolerances[key] = tolerance + idle_band(p, demand.tolerance)
        return self._tolerances[key]


def idle_band(p: Property, tolerances: Any) -> Fraction:
    """Return the idle band of a property if its tolerance is not stated explicitly, otherwise 0."""
    return decimal(p.idle_band) if p.idle_band and p.name not in tolerances else Fraction(0)


@lru_cache(maxsize=8_192)
def decimal(number: float) -> Fraction:
    """Return the decimal number as written, not the nearest double."""
    return Fraction(str(number))


def distance(p: Property, delivered: Any, actual: Any) -> Fraction | float:
    """Return the exact difference of two values; infinite for different values that have no numeric difference."""
    if delivered == actual and type(delivered) is type(actual):
        return 0
    if delivered is None or actual is None or isinstance(actual, str | bool | bytes | dict | datetime):
        return math.inf
    if p.kind is Kind.GEO:
        is_same = delivered[0] == actual[0] and (delivered[1] - actual[1]) % 360 == 0
        return 0 if is_same else _metres(delivered, actual)
    if p.kind is Kind.ARRAY:
        return max(abs(decimal(a) - decimal(b)) for a, b in zip(delivered, actual, strict=True))
    if p.kind is Kind.OPAQUE:
        return 0 if delivered == actual else math.inf
    if p.kind is Kind.FLOAT:
        return abs(Fraction(delivered) - Fraction(actual))
    return abs(decimal(delivered) - decimal(actual))


def _metres(a: Any, b: Any) -> float:
    """Return the great-circle distance by the haversine formula, which the product does not use."""
    (north, east), (south, west) = (map(math.radians, position) for position in (a, b))
    half = math.sin((north - south) / 2) ** 2 + math.cos(north) * math.cos(south) * math.sin((east - west) / 2) ** 2
    return 2 * EARTH_RADIUS * math.asin(math.sqrt(half))
