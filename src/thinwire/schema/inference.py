"""Schemas found from sample events.

A schema found this way is a proposal: `explain` says of every property why it was judged so. Roles come from names, so
give `dimensions=` and `time=` where you know them. Nothing is declared that the sample cannot show: enums stay open,
and there are no ranges unless asked for.

>>> sample = [{"time": f"2024-05-01T10:00:0{i}Z", "sensor": "T1", "air": {"heat": 20 + i / 10}} for i in range(5)]
>>> found = explain(sample, "building.rooms")
>>> [(p.name, p.role.value, p.kind.value) for p in found.schema]
[('time', 'header', 'timestamp'), ('sensor', 'dimension', 'string'), ('air.heat', 'measurement', 'number')]
>>> found.reasons["air.heat"]
'number: at most 1 decimal; measurement'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from thinwire.errors import SchemaError
from thinwire.schema.kind_detection import Column, Verdict, columns_of, judge, names_asset, names_instant, widened
from thinwire.schema.property import Kind, Property, Role
from thinwire.schema.schema import Schema

_IDENTIFYING = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.ENUM, Kind.STRING})


@dataclass(frozen=True)
class Inference:
    """A schema and, for each of its properties, why it was judged so."""

    schema: Schema
    reasons: dict[str, str]


def infer(
    events: Iterable[Mapping[str, Any]],
    name: str,
    *,
    dimensions: Sequence[str] | None = None,
    time: str | None = None,
    ranges: bool = False,
    limit: int = 10_000,
) -> Schema:
    """The schema of sample events, as `explain` finds it."""
    return explain(events, name, dimensions=dimensions, time=time, ranges=ranges, limit=limit).schema


def explain(
    events: Iterable[Mapping[str, Any]],
    name: str,
    *,
    dimensions: Sequence[str] | None = None,
    time: str | None = None,
    ranges: bool = False,
    limit: int = 10_000,
) -> Inference:
    """The schema of sample events with the reasons.

    dimensions: paths that identify a source; without it they are found by name, where values repeat
    time: path of the timestamp; without it it is found by name, form and order
    ranges: declare the range seen, widened outwards to round numbers, so that percent tolerances have a meaning
    limit: read at most so many events
    """
    count, columns = columns_of(events, limit)
    if dimensions is not None and time in dimensions:
        raise SchemaError("a property cannot be both a dimension and the time", property=time)
    _refuse_missing(columns, [*(dimensions or ()), *([] if time is None else [time])])
    verdicts = {column.path: judge(column, stamp=column.path == time) for column in columns}
    stamp = _pick_time(columns, verdicts, dimensions or ()) if time is None else time
    properties, reasons = [], {}
    for column in columns:
        role, why = _role(column, count, dimensions, stamp)
        verdict = _settled(column, verdicts[column.path], role)
        span = widened(column, verdict.kind) if ranges and role is not Role.DIMENSION else {}
        properties.append(Property(column.path, verdict.kind, role, **{**verdict.fields, **span}))
        reasons[column.path] = f"{verdict.kind.value}: {verdict.reason}; {why}"
    return Inference(Schema(name, properties), reasons)


def _refuse_missing(columns: list[Column], wanted: list[str]) -> None:
    present = {column.path: column for column in columns}
    for path in wanted:
        if path not in present:
            raise SchemaError("the sample has no such property", property=path, known=sorted(present))
        if present[path].missing:
            raise SchemaError(
                "dimensions and the timestamp must be in every event", property=path, missing=present[path].missing
            )


def _role(column: Column, count: int, dimensions: Sequence[str] | None, stamp: str | None) -> tuple[Role, str]:
    if column.path == stamp:
        return Role.HEADER, "header: it tells the time of the event"
    if dimensions is not None:
        given = column.path in dimensions
        return (Role.DIMENSION, "dimension: as given") if given else (Role.MEASUREMENT, "measurement")
    return _asset(column, count)


def _asset(column: Column, count: int) -> tuple[Role, str]:
    """A dimension by its name, if its values come back: an id that is new in every event identifies no asset."""
    if column.missing or column.types not in ({str}, {int}) or not names_asset(column.name):
        return Role.MEASUREMENT, "measurement"
    distinct = len(set(column.values))
    if 2 * distinct > count:
        return Role.MEASUREMENT, f"measurement: named like an asset, but {distinct} values in {count} events"
    return Role.DIMENSION, f"dimension: named like an asset, {distinct} values in {count} events"


def _pick_time(columns: list[Column], verdicts: Mapping[str, Verdict], taken: Sequence[str]) -> str | None:
    """The timestamp in every event whose name says so best; among equals the one in order, then the first."""
    free = [c for c in columns if not c.missing and c.path not in taken]
    stamps = [c for c in free if verdicts[c.path].kind is Kind.TIMESTAMP]
    ranked = [(names_instant(c.name), _in_order(c.values), -place, c.path) for place, c in enumerate(stamps)]
    best = max(ranked, default=(0, False, 0, ""))
    return best[3] if best[0] or best[1] else None


def _in_order(values: list[Any]) -> bool:
    """Do nine steps out of ten not go backwards?"""
    forwards = sum(1 for a, b in pairwise(values) if a <= b)
    return 10 * forwards >= 9 * (len(values) - 1)


def _settled(column: Column, verdict: Verdict, role: Role) -> Verdict:
    """A dimension is never an enum of what happened to be in the sample, and must be able to identify."""
    if role is not Role.DIMENSION:
        return verdict
    if column.types == {str}:
        return Verdict(Kind.STRING, "text")
    if verdict.kind not in _IDENTIFYING:
        raise SchemaError(f"a {verdict.kind.value} cannot identify a source", property=column.path)
    return verdict
