"""Reconstruction: equal to a sequential scan of each source."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from thinwire.errors import ConfigError
from thinwire.spark.reconstruction import fill_table, reconstruct

NAMES = ("a", "b")
SCHEMA = pa.schema(
    [("plant", pa.string()), ("room", pa.int64()), ("n", pa.int64())]
    + [(name, pa.float64()) for name in NAMES]
    + [("gone", pa.list_(pa.string()))]
)

values = st.none() | st.floats(-9, 9)
rows = st.tuples(
    st.sampled_from(["x", "y", None]), st.integers(0, 2), values, values, st.none() | st.lists(st.sampled_from(NAMES))
)


def walked(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the result of a sequential scan."""
    last: dict[Any, dict[str, Any]] = {}
    out = []
    for row in sorted(table, key=lambda row: row["n"]):
        current = last.setdefault((row["plant"], row["room"]), dict.fromkeys(NAMES))
        for name in NAMES:
            if row[name] is not None or name in (row["gone"] or ()):
                current[name] = row[name]
        out.append({**row, **current})
    return out


def partials(drawn: list[tuple[Any, ...]], order: list[int]) -> list[dict[str, Any]]:
    table = [
        dict(zip(SCHEMA.names, (plant, room, n, a, b, gone), strict=True))
        for n, (plant, room, a, b, gone) in enumerate(drawn)
    ]
    for row in table:  # a row cannot contain a value and mark it as absent
        row["gone"] = [name for name in row["gone"] or () if row[name] is None]
    return [table[n] for n in order]


@given(st.lists(rows, max_size=30).flatmap(lambda r: st.tuples(st.just(r), st.permutations(range(len(r))))))
def test_a_table_is_filled_as_by_a_sequential_scan(drawn: tuple[list[tuple[Any, ...]], list[int]]) -> None:
    table = partials(*drawn)
    filled = fill_table(
        pa.Table.from_pylist(table, SCHEMA), source=["plant", "room"], order=["n"], properties=NAMES, absent="gone"
    )
    assert filled.schema == SCHEMA
    assert sorted(filled.to_pylist(), key=lambda row: row["n"]) == walked(table)


def test_a_table_is_filled_bucket_by_bucket(spark: SparkSession) -> None:
    drawn = [("x" if n % 2 else "y", n % 7, float(n) if n % 3 else None, None, []) for n in range(200)]
    table = partials(drawn, list(range(200)))
    frame = spark.createDataFrame(pa.Table.from_pylist(table, SCHEMA))
    filled = reconstruct(frame, source=["plant", "room"], order=["n"], absent="gone", buckets=5)
    assert filled.schema == frame.schema
    assert [row.asDict() for row in filled.orderBy("n").collect()] == walked(table)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"source": []}, "source"),
        ({"source": ["nobody"]}, "nobody"),
        ({"source": ["room"], "order": ["never"]}, "never"),
        ({"source": ["room"], "order": ["n"], "absent": "a"}, "absent"),
        ({"source": ["room"], "order": ["n"], "buckets": 0}, "buckets"),
    ],
)
def test_invalid_settings_are_reported(spark: SparkSession, settings: dict[str, Any], word: str) -> None:
    frame = spark.createDataFrame(pa.Table.from_pylist([], SCHEMA))
    with pytest.raises(ConfigError, match=word):
        reconstruct(frame, **settings)
