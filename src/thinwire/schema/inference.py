"""Inference of schemas from sample events.

An inferred schema is a proposal; `explain` also returns the reason for each property. Roles follow from names, so pass
`dimensions` and `time` if they are known. The schema declares nothing that a sample cannot show: enums stay open, and
ranges are only declared on request.

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
from thinwire.schema.kind import Kind
from thinwire.schema.kind_detection import (
    Column,
    DetectedKind,
    detect_kind,
    is_asset_name,
    rank_time_name,
    read_columns,
    widen_range,
)
from thinwire.schema.property import Property, Role
from thinwire.schema.schema import IDENTIFYING_KINDS, Schema


@dataclass(frozen=True)
class Inference:
    """An inferred schema and the reason for each of its properties."""

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
    """Return the schema of sample events, as `explain` infers it."""
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
    """Return the schema of sample events with the reasons.

    dimensions: paths that identify a source; by default found by name, if their values repeat
    time: path of the timestamp; by default found by name, form and order
    ranges: declare the range of the sample, widened to round numbers, as a reference for percent tolerances
    limit: number of events to read, at most
    """
    count, columns = read_columns(events, limit)
    if dimensions is not None and time in dimensions:
        raise SchemaError("a property cannot be both a dimension and the time", property=time)
    _check_present(columns, [*(dimensions or ()), *([] if time is None else [time])])
    kinds = {column.path: detect_kind(column, is_time=column.path == time) for column in columns}
    time = _find_time(columns, kinds, dimensions or ()) if time is None else time
    properties, reasons = [], {}
    for column in columns:
        role, why = _role(column, count, dimensions, time)
        detected = kinds[column.path] if role is not Role.DIMENSION else _dimension_kind(column, kinds[column.path])
        limits = widen_range(column, detected.kind) if ranges and role is not Role.DIMENSION else {}
        properties.append(Property(column.path, detected.kind, role, **{**detected.fields, **limits}))
        reasons[column.path] = f"{detected.kind.value}: {detected.reason}; {why}"
    return Inference(Schema(name, properties), reasons)


def _check_present(columns: list[Column], required: list[str]) -> None:
    by_path = {column.path: column for column in columns}
    for path in required:
        if path not in by_path:
            raise SchemaError("the sample has no such property", property=path, known=sorted(by_path))
        if by_path[path].missing:
            detail = "dimensions and the timestamp must be in every event"
            raise SchemaError(detail, property=path, missing=by_path[path].missing)


def _role(column: Column, count: int, dimensions: Sequence[str] | None, time: str | None) -> tuple[Role, str]:
    if column.path == time:
        return Role.HEADER, "header: the time of the event"
    if dimensions is not None:
        given = column.path in dimensions
        return (Role.DIMENSION, "dimension: as given") if given else (Role.MEASUREMENT, "measurement")
    if column.missing or column.types not in ({str}, {int}) or not is_asset_name(column.name):
        return Role.MEASUREMENT, "measurement"
    # An id that is new in every event does not identify an asset.
    distinct = len(set(column.values))
    if 2 * distinct > count:
        return Role.MEASUREMENT, f"measurement: named like an asset, but {distinct} values in {count} events"
    return Role.DIMENSION, f"dimension: named like an asset, {distinct} values in {count} events"


def _find_time(columns: list[Column], kinds: Mapping[str, DetectedKind], taken: Sequence[str]) -> str | None:
    """Return the timestamp in every event with the best name; of equal ones the first in ascending order."""
    free = [c for c in columns if not c.missing and c.path not in taken]
    timestamps = [c for c in free if kinds[c.path].kind is Kind.TIMESTAMP]
    ranked = [(rank_time_name(c.name), _is_ascending(c.values), -index, c.path) for index, c in enumerate(timestamps)]
    rank, ascending, _, path = max(ranked, default=(0, False, 0, ""))
    return path if rank or ascending else None


def _is_ascending(values: list[Any]) -> bool:
    """Return whether at least nine of ten steps do not go backwards."""
    forwards = sum(1 for a, b in pairwise(values) if a <= b)
    return 10 * forwards >= 9 * (len(values) - 1)


def _dimension_kind(column: Column, detected: DetectedKind) -> DetectedKind:
    """Return the kind of a dimension: never an enum of the values in the sample, and able to identify a source."""
    if column.types == {str}:
        return DetectedKind(Kind.STRING, "text")
    if detected.kind not in IDENTIFYING_KINDS:
        raise SchemaError(f"a {detected.kind.value} cannot identify a source", property=column.path)
    return detected
