"""Audit frames: exact values of an event, from which a decoder measures its errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from thinwire.codec import Rule, RuleSet
from thinwire.codec import geo_distance as geo
from thinwire.codec.ticks import ABSENT, OFF_GRID
from thinwire.codec.tolerance_vector import tick_size
from thinwire.codec.value_conversion import array_of, converter, opaque_bytes
from thinwire.codec.value_decoder import value_of_exact
from thinwire.codec.value_encoder import check_kind, encode_exact_value
from thinwire.errors import CorruptFrame, EventRejected
from thinwire.schema import Schema
from thinwire.schema.event import flatten
from thinwire.wire import exact_value, varint
from thinwire.wire.partial_event import EncodingKind

Exacts = tuple[Any, ...]


def encode_audit(source: int, skip: int, exacts: Exacts) -> bytes:
    return varint.write(source) + varint.write(skip) + b"".join(exact_value.encode(value) for value in exacts)


def decode_audit(body: bytes, schema: Schema) -> tuple[int, int, Exacts]:
    """Return source, skip and exact values of an audit frame."""
    source, at = varint.read(body, 0)
    skip, at = varint.read(body, at)
    values: list[Any] = []
    for _ in schema.wire:
        value, at = exact_value.decode(body, at)
        values.append(value)
    if at != len(body):
        raise CorruptFrame("bytes after the last value of an audit", length=len(body))
    return source, skip, tuple(values)


def exact_values_of(event: Mapping[str, Any], rules: RuleSet) -> dict[str, Any]:
    """Return the exact values of an event by property, as they are sent."""
    return {rule.property.name: _exact(rule, event.get(rule.property.name)) for rule in rules.rules}


def measure_errors(event: Mapping[str, Any], exacts: Exacts, rules: RuleSet) -> dict[str, float]:
    """Return the error of each property of an event; infinite if the values differ without a distance."""
    flat = flatten(event, rules.schema)
    found: dict[str, float] = {}
    for rule, exact in zip(rules.rules, exacts, strict=True):
        check_kind(rule, exact)
        try:
            found[rule.property.name] = _distance(rule, flat[rule.property.name], exact)
        except EventRejected as error:
            raise CorruptFrame(f"audit: {error}") from None
    return found


def _exact(rule: Rule, value: Any) -> Any:
    if value is None or rule.encoding in (EncodingKind.TEXT, EncodingKind.FLAG):
        return value
    if rule.encoding is EncodingKind.OPAQUE:
        return opaque_bytes(rule.property, value)
    if rule.encoding is EncodingKind.TICK:
        return encode_exact_value(converter(rule.property)(value), value)
    return [float(item) for item in value] if isinstance(value, list | tuple) else float(value)


def _distance(rule: Rule, decoded: Any, exact: Any) -> float:
    if rule.encoding is EncodingKind.TICK and isinstance(exact, int):
        return _tick_distance(rule, decoded, exact)
    true_value = value_of_exact(rule, exact)
    counted = rule.encoding is not EncodingKind.OPAQUE and isinstance(true_value, int | float | list)
    if decoded is None or true_value is None or not counted:
        return 0.0 if decoded == true_value else math.inf
    if rule.encoding is EncodingKind.GEO:
        a, b = (geo.to_ticks(position, rule.property.name) for position in (decoded, true_value))
        return geo.distance(a[0] - b[0], geo.wrap(a[1] - b[1]), b[0])
    if isinstance(true_value, list):
        return _array_distance(rule, decoded, true_value)
    return abs(decoded - true_value) if isinstance(decoded, int | float) else math.inf


def _tick_distance(rule: Rule, decoded: Any, exact: int) -> float:
    """Compare whole ticks, because rounding of doubles could exceed a bound that is met exactly."""
    try:
        ticks = converter(rule.property)(decoded)
    except EventRejected:
        return math.inf
    if ticks in (ABSENT, OFF_GRID):
        return math.inf
    return float(abs(ticks - exact) * tick_size(rule.property))


def _array_distance(rule: Rule, decoded: list[float], true_value: list[float]) -> float:
    """Return the largest distance of two elements, in whole ticks if they are on the grid."""
    if len(decoded) != len(true_value):
        return math.inf
    (a, a_on_grid), (b, b_on_grid) = array_of(rule.property, decoded), array_of(rule.property, true_value)
    if a_on_grid and b_on_grid:
        difference = max((abs(x - y) for x, y in zip(a, b, strict=True)), default=0)
        return float(difference * tick_size(rule.property))
    return max(abs(x - y) for x, y in zip(decoded, true_value, strict=True))
