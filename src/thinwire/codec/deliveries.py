"""What a subscriber's end of a link hands out beside events.

Audits: now and then an event travels exactly as well, and the receiver measures how far its own values are off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from thinwire.codec import Rule, RuleSet
from thinwire.codec import geo_distance as geo
from thinwire.codec import value_encoder as exceptions
from thinwire.codec.demand import tick_size
from thinwire.codec.ticks import ABSENT, OFF_GRID
from thinwire.codec.value_conversion import Converter, array_of, converter
from thinwire.codec.value_decoder import value_of_exact
from thinwire.errors import CorruptFrame, EventRejected
from thinwire.schema import Event, Schema
from thinwire.schema.event import flatten
from thinwire.wire import exact_value as exact
from thinwire.wire import varint
from thinwire.wire.partial_event import EncodingKind


class EventsMissed(NamedTuple):
    """Events the subscriber could not have.

    source: whose; None where not even that is known yet
    first, last: their ordinals; None where unknown
    reason: "gap", "restart", "corrupt", "diverged", "unknown schema", "unknown dictionary", "refused" or "retention"
        (no longer in the log)
    """

    publisher: str
    source: tuple[Any, ...] | None
    first: int | None
    last: int | None
    reason: str


class Watermark(NamedTuple):
    """All sources of the publisher are complete up to this time (seconds)."""

    publisher: str
    time: float


class Audit(NamedTuple):
    """How far each property of an event was from the truth.

    exacts: the truth by property, as it travelled: whole numbers count ticks
    """

    publisher: str
    source: tuple[Any, ...]
    ordinal: int
    errors: dict[str, float]
    bound: dict[str, float | None]
    exacts: Mapping[str, Any]


Delivery = Event | EventsMissed | Watermark | Audit


Exacts = tuple[Any, ...]


def encode(source: int, skip: int, exacts: Exacts) -> bytes:
    """The body of an audit frame."""
    return varint.write(source) + varint.write(skip) + b"".join(exact.encode(value) for value in exacts)


def decode(body: bytes, schema: Schema) -> tuple[int, int, Exacts]:
    """Source, skip and exact values of an audit frame."""
    source, at = varint.read(body, 0)
    skip, at = varint.read(body, at)
    values: list[Any] = []
    for _ in schema.wire:
        value, at = exact.decode(body, at)
        values.append(value)
    if at != len(body):
        raise CorruptFrame("bytes after the last value of an audit", length=len(body))
    return source, skip, tuple(values)


def exacts_of(event: Mapping[str, Any], rules: tuple[Rule, ...], converters: list[Converter]) -> Exacts:
    """The values of an event as they travel exactly."""
    return tuple(
        _exact(rule, event.get(rule.property.name), convert) for rule, convert in zip(rules, converters, strict=True)
    )


def errors(event: Mapping[str, Any], exacts: Exacts, rules: RuleSet) -> dict[str, float]:
    """How far each property of a virtual event is from the truth; infinite where they differ and no number says how."""
    flat = flatten(event, rules.schema)
    found: dict[str, float] = {}
    for rule, told in zip(rules.rules, exacts, strict=True):
        exceptions.check_kind(rule, told)
        try:
            found[rule.property.name] = _distance(rule, flat[rule.property.name], told)
        except EventRejected as problem:
            raise CorruptFrame(f"audit: {problem}") from None
    return found


def _exact(rule: Rule, value: Any, convert: Converter) -> Any:
    if value is None or rule.lane is EncodingKind.TEXT:
        return value
    ticks = convert(value)
    if rule.lane is EncodingKind.OPAQUE:
        return ticks
    if rule.lane is EncodingKind.FLAG:
        return value
    if rule.lane is EncodingKind.TICK:
        return exceptions.encode_exact_value(ticks, value)
    return [float(item) for item in value] if isinstance(value, list | tuple) else float(value)


def _distance(rule: Rule, seen: Any, told: Any) -> float:
    if rule.lane is EncodingKind.TICK and isinstance(told, int):
        return _tick_distance(rule, seen, told)
    truth = value_of_exact(rule, told)
    counted = rule.lane is not EncodingKind.OPAQUE and isinstance(truth, int | float | list)
    if seen is None or truth is None or not counted:
        return 0.0 if seen == truth else math.inf
    if rule.lane is EncodingKind.GEO:
        return _metres(seen, truth, rule)
    if isinstance(truth, list):
        return _array_distance(rule, seen, truth)
    return abs(seen - truth) if isinstance(seen, int | float) else math.inf


def _tick_distance(rule: Rule, seen: Any, told: int) -> float:
    """Counted in whole ticks, so that a promise kept exactly is not broken by a rounding of doubles."""
    try:
        ticks = converter(rule.property)(seen)
    except EventRejected:
        return math.inf
    if ticks in (ABSENT, OFF_GRID):
        return math.inf
    return float(abs(ticks - told) * tick_size(rule.property))


def _array_distance(rule: Rule, seen: list[float], truth: list[float]) -> float:
    """The largest of its elements' distances, in whole ticks where they are on the grid."""
    if len(seen) != len(truth):
        return math.inf
    (a, a_on_grid), (b, b_on_grid) = array_of(rule.property, seen), array_of(rule.property, truth)
    if a_on_grid and b_on_grid:
        apart = max((abs(x - y) for x, y in zip(a, b, strict=True)), default=0)
        return float(apart * tick_size(rule.property))
    return max(abs(x - y) for x, y in zip(seen, truth, strict=True))


def _metres(seen: Any, truth: Any, rule: Rule) -> float:
    a, b = geo.to_ticks(seen, rule.property.name), geo.to_ticks(truth, rule.property.name)
    return geo.distance(a[0] - b[0], geo.wrap(a[1] - b[1]), b[0])
