"""Options of the source: parsing, errors that name the option, and no secrets in texts."""

from __future__ import annotations

import pytest

from thinwire.errors import ConfigError, SparkUnavailable
from thinwire.spark.session import check_java, check_spark
from thinwire.spark.source.offset_plan import limit_batch
from thinwire.spark.source.source_options import SourceOptions

GIVEN = {"servers": "nats://ada:secret@broker:4222", "subscribe": "building.rooms"}


def test_names_are_not_case_sensitive_and_secrets_are_not_shown() -> None:
    options = SourceOptions.read(
        {"SERVERS": GIVEN["servers"], "Subscribe": "building.rooms", "failondataloss": "FALSE"}
    )
    assert (options.topics, options.fail_on_data_loss) == (("building.rooms",), False)
    assert "secret" not in repr(options)
    assert "ada" not in repr(options)


def test_tolerances_are_a_number_or_an_object() -> None:
    number = SourceOptions.read({**GIVEN, "tolerance": "0.5"}).demand
    named = SourceOptions.read({**GIVEN, "tolerance": '{"t": 0.5, "p": "1%"}'}).demand
    assert number is not None
    assert named is not None
    assert number.default_tolerance == 0.5
    assert dict(named.tolerance) == {"t": 0.5, "p": "1%"}


def test_a_time_is_a_count_or_a_text() -> None:
    assert SourceOptions.read({**GIVEN, "startingTimestamp": "1700000000500"}).since == 1_700_000_000.5
    assert SourceOptions.read({**GIVEN, "startingTimestamp": "2023-11-14T22:13:20+00:00"}).since == 1_700_000_000.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("columns", "rows"),
        ("endingOffsets", '{"building.rooms": "three"}'),
        ("failOnDataLoss", "perhaps"),
        ("maxOffsetsPerTrigger", "0"),
        ("minPartitions", "many"),
        ("path", "/somewhere/else"),
        ("servers", "broker:4222"),
        ("servers", "memory://here"),
        ("startingOffsets", '["building.rooms"]'),
        ("startingTimestamp", "yesterday"),
        ("startingTimestamp", "999999999999999"),
        ("subscribe", "building rooms"),
        ("subscribePattern", "("),
        ("tolerance", "[1]"),
        ("tolerance", "-1"),
    ],
)
def test_invalid_values_name_the_option(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as problem:
        SourceOptions.read({**GIVEN, name: value})
    named = "servers" if name == "path" else name
    assert f"option={named!r}" in str(problem.value)
    assert "secret" not in str(problem.value)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="option='startingoffset'"):
        SourceOptions.read({**GIVEN, "startingOffset": "latest"})


def test_a_limited_batch_makes_progress_on_every_topic() -> None:
    first, end = {"a": 1, "b": 1, "c": 7}, {"a": 1_000, "b": 3, "c": 7}
    batches = 0
    while first != end:
        reached = limit_batch(first, end, max_messages=10)
        assert 0 < sum(reached[topic] - first[topic] for topic in end) <= 10
        first, batches = reached, batches + 1
    assert batches <= 102


def test_old_versions_of_spark_and_java_are_refused() -> None:
    check_spark("4.3.0")
    check_java(17)
    with pytest.raises(SparkUnavailable, match=r"Spark 4.3 or newer is needed: pip install.*found='4.2.1'"):
        check_spark("4.2.1")
    with pytest.raises(SparkUnavailable, match=r"Java 17 or newer is needed: .*found='none'"):
        check_java(0)
