"""Rows as JSON documents.

The document is flat and has a version. An unknown field is an error; a missing field is zero.

>>> document = to_document(Row("demo", "rooms", class_="strict", events=3))
>>> document["version"], document["class"], document["events"], document["latency_sent"]["count"]
(1, 'strict', 3, 0)
>>> from_document(document).class_
'strict'
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from thinwire.errors import LedgerError
from thinwire.ledger.histogram import TOP, Histogram
from thinwire.ledger.row import COUNTERS, KEYS, Deviation, Row

T = TypeVar("T")

VERSION = 1

_MAX_COUNT = (1 << 63) - 1
_INFINITE = "infinite"
_KINDS: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}
_NAMES = {key.rstrip("_"): key for key in KEYS}
_HISTOGRAMS = ("latency_sent", "latency_virtual")
_FIELDS = frozenset(("version", *_NAMES, *COUNTERS, "errors", *_HISTOGRAMS, "cpu_seconds"))


def to_document(row: Row) -> dict[str, Any]:
    """Return the fields of a row, without derived figures."""
    return {
        "version": VERSION,
        **{name: getattr(row, key) for name, key in _NAMES.items()},
        **{name: getattr(row, name) for name in COUNTERS},
        "errors": {name: _encode_deviation(deviation) for name, deviation in row.errors.items()},
        **{name: _encode_histogram(getattr(row, name)) for name in _HISTOGRAMS},
        "cpu_seconds": dict(row.cpu_seconds),
    }


def from_document(document: Any) -> Row:
    """Return the row. An invalid document raises `LedgerError` with the field."""
    version = _require(dict, document, "row").get("version")
    if version != VERSION:
        raise LedgerError("unknown version of the ledger", version=version, known=VERSION)
    fields = _require_fields(document, "row", _FIELDS)
    values: dict[str, Any] = {key: _require(str, fields.get(name, ""), name) for name, key in _NAMES.items()}
    values |= {name: _decode_count(fields.get(name, 0), name) for name in COUNTERS}
    values |= {name: _decode_histogram(fields.get(name, {}), name) for name in _HISTOGRAMS}
    return Row(
        **values,
        errors=_decode_mapping(fields.get("errors", {}), "errors", _decode_deviation),
        cpu_seconds=_decode_mapping(fields.get("cpu_seconds", {}), "cpu_seconds", _decode_number),
    )


def _encode_deviation(deviation: Deviation) -> dict[str, Any]:
    ratios = _encode_histogram(deviation.ratios)
    return {"broken": deviation.broken, "worst": _encode_number(deviation.worst), "ratios": ratios}


def _decode_mapping(value: Any, field: str, decode: Callable[[Any, str], T]) -> dict[str, T]:
    return {name: decode(item, f"{field}.{name}") for name, item in _require(dict, value, field).items()}


def _decode_deviation(value: Any, field: str) -> Deviation:
    fields = _require_fields(value, field, {"broken", "worst", "ratios"})
    return Deviation(
        _decode_count(fields.get("broken", 0), f"{field}.broken"),
        _decode_number(fields.get("worst", 0.0), f"{field}.worst"),
        _decode_histogram(fields.get("ratios", {}), f"{field}.ratios"),
    )


def _encode_histogram(histogram: Histogram) -> dict[str, Any]:
    if not histogram.buckets:
        return {"count": 0}
    return {
        "count": histogram.count,
        "least": _encode_number(histogram.least),
        "most": _encode_number(histogram.most),
        "buckets": [list(pair) for pair in sorted(histogram.buckets.items())],
    }


def _decode_histogram(value: Any, field: str) -> Histogram:
    fields = _require_fields(value, field, {"count", "least", "most", "buckets"})
    count = _decode_count(fields.get("count", 0), f"{field}.count")
    pairs = _require(list, fields.get("buckets", []), f"{field}.buckets")
    buckets = Counter(dict(_decode_bucket(pair, f"{field}.buckets") for pair in pairs))
    if buckets.total() != count:
        raise LedgerError("the buckets do not add up to the count", field=field, count=count)
    if not count:
        return Histogram()
    least, most = (_decode_number(fields.get(end), f"{field}.{end}") for end in ("least", "most"))
    if least > most:
        raise LedgerError("least is above most", field=field, least=least, most=most)
    return Histogram(buckets, least, most)


def _decode_bucket(pair: Any, field: str) -> tuple[int, int]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise LedgerError("a bucket is a pair of number and count", field=field, given=pair)
    bucket, count = _decode_count(pair[0], field), _decode_count(pair[1], field)
    if bucket > TOP or not count:
        raise LedgerError("no such bucket, or an empty one", field=field, given=pair, limit=TOP)
    return bucket, count


def _encode_number(value: float) -> float | str:
    # JSON has no infinity, and null would mean "not measured".
    return _INFINITE if value == math.inf else value


def _decode_number(value: Any, field: str) -> float:
    if value == _INFINITE:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise LedgerError("must be a non-negative number", field=field, given=value)
    return float(value)


def _decode_count(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        raise LedgerError("must be a whole number from 0 to 2^63 - 1", field=field, given=value)
    return value


def _require(kind: type[T], value: Any, field: str) -> T:
    if not isinstance(value, kind):
        raise LedgerError(f"must be {_KINDS[kind]}", field=field, given=value)
    return value


def _require_fields(value: Any, field: str, known: Collection[str]) -> dict[str, Any]:
    fields = _require(dict, value, field)
    unknown = sorted(fields.keys() - known)
    if unknown:
        raise LedgerError("unknown fields", field=field, unknown=unknown)
    return fields
