"""A row as plain JSON values, and back.

The document is flat and says its version. A field this version does not know is named in the complaint, never dropped
in silence; fields left out are zero.

>>> document = to_document(Row("demo", "rooms", class_="strict", events=3))
>>> document["version"], document["class"], document["events"], document["latency_sent"]["count"]
(1, 'strict', 3, 0)
>>> from_document(document).class_
'strict'
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from thinwire.errors import LedgerError
from thinwire.ledger.histogram import TOP, Histogram
from thinwire.ledger.row import COUNTERS, KEYS, Deviation, Row

VERSION = 1

_MAX_COUNT = (1 << 63) - 1
_INFINITE = "infinite"
_NAMES = {key.rstrip("_"): key for key in KEYS}
_SPREADS = ("latency_sent", "latency_virtual")
_FIELDS = frozenset(("version", *_NAMES, *COUNTERS, "errors", *_SPREADS, "cpu_seconds"))


def to_document(row: Row) -> dict[str, Any]:
    """Everything in the row, nothing derived from it."""
    return {
        "version": VERSION,
        **{name: getattr(row, key) for name, key in _NAMES.items()},
        **{name: getattr(row, name) for name in COUNTERS},
        "errors": {name: _deviation_out(deviation) for name, deviation in row.errors.items()},
        **{name: _histogram_out(getattr(row, name)) for name in _SPREADS},
        "cpu_seconds": dict(row.cpu_seconds),
    }


def from_document(document: Any) -> Row:
    """The row, or a `LedgerError` that names the field and what is wrong with it."""
    fields = _mapping(document, "row")
    version = fields.get("version")
    if version != VERSION:
        raise LedgerError("this version of the ledger is not known here", version=version, known=VERSION)
    _only(fields, _FIELDS, "row")
    values: dict[str, Any] = {key: _text(fields.get(name, ""), name) for name, key in _NAMES.items()}
    values |= {name: _count(fields.get(name, 0), name) for name in COUNTERS}
    values |= {name: _histogram_in(fields.get(name, {}), name) for name in _SPREADS}
    return Row(
        **values,
        errors={name: _deviation_in(of, name) for name, of in _mapping(fields.get("errors", {}), "errors").items()},
        cpu_seconds={
            role: _measure(seconds, f"cpu_seconds.{role}")
            for role, seconds in _mapping(fields.get("cpu_seconds", {}), "cpu_seconds").items()
        },
    )


def _deviation_out(deviation: Deviation) -> dict[str, Any]:
    ratios = _histogram_out(deviation.ratios)
    return {"broken": deviation.broken, "worst": _measure_out(deviation.worst), "ratios": ratios}


def _deviation_in(value: Any, name: str) -> Deviation:
    place = f"errors.{name}"
    fields = _mapping(value, place)
    _only(fields, {"broken", "worst", "ratios"}, place)
    return Deviation(
        _count(fields.get("broken", 0), f"{place}.broken"),
        _measure(fields.get("worst", 0.0), f"{place}.worst"),
        _histogram_in(fields.get("ratios", {}), f"{place}.ratios"),
    )


def _histogram_out(histogram: Histogram) -> dict[str, Any]:
    if not histogram.buckets:
        return {"count": 0}
    return {
        "count": histogram.count,
        "least": _measure_out(histogram.least),
        "most": _measure_out(histogram.most),
        "buckets": [[bucket, count] for bucket, count in sorted(histogram.buckets.items())],
    }


def _histogram_in(value: Any, place: str) -> Histogram:
    fields = _mapping(value, place)
    _only(fields, {"count", "least", "most", "buckets"}, place)
    count = _count(fields.get("count", 0), f"{place}.count")
    buckets = dict(_bucket(pair, f"{place}.buckets") for pair in _list(fields.get("buckets", []), f"{place}.buckets"))
    if sum(buckets.values()) != count:
        raise LedgerError("the buckets do not add up to the count", field=place, count=count)
    if not count:
        return Histogram()
    least, most = (_measure(fields.get(end), f"{place}.{end}") for end in ("least", "most"))
    if least > most:
        raise LedgerError("least is above most", field=place, least=least, most=most)
    return Histogram(buckets, least, most)


def _bucket(pair: Any, place: str) -> tuple[int, int]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise LedgerError("a bucket is its number and a count", field=place, given=pair)
    bucket, count = _count(pair[0], place), _count(pair[1], place)
    if bucket > TOP or not count:
        raise LedgerError("no such bucket, or an empty one", field=place, given=pair, limit=TOP)
    return bucket, count


def _measure_out(value: float) -> float | str:
    # JSON has no infinity, and null would read as "not measured".
    return _INFINITE if value == math.inf else value


def _measure(value: Any, place: str) -> float:
    if value == _INFINITE:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise LedgerError("must be a number from 0 upwards", field=place, given=value)
    return float(value)


def _count(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        raise LedgerError("must be a whole number from 0 to 2^63 - 1", field=place, given=value)
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise LedgerError("must be a text", field=place, given=value)
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise LedgerError("must be a list", field=place, given=value)
    return value


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise LedgerError("must be an object", field=place, given=value)
    return value


def _only(fields: Mapping[str, Any], known: frozenset[str] | set[str], place: str) -> None:
    unknown = sorted(set(fields) - known)
    if unknown:
        raise LedgerError("fields this version does not know", field=place, unknown=unknown)
