"""Rows: counted, merged, written and read."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import LedgerError
from thinwire.ledger import COUNTERS, KEYS, MANY, Deviation, Histogram, Row, RowTally, from_document, merge, to_document

counts = st.integers(0, 10**12)
texts = st.sampled_from(["", "a", "b", "*", "räume", "\n"])
# Multiples of a power of two add up without rounding, so that sums can be compared exactly.
seconds = st.integers(0, 2**40).map(lambda n: n / 1024)
pairs = st.lists(st.tuples(st.floats(0, allow_nan=False), st.floats(0, 1e300)), max_size=5)


@st.composite
def histograms(draw):
    histogram = Histogram()
    for value in draw(st.lists(st.floats(0), max_size=8)):
        histogram.add(value)
    return histogram


@st.composite
def deviations(draw):
    deviation = Deviation()
    for error, bound in draw(pairs):
        deviation.add(error, bound)
    return deviation


rows = st.builds(
    Row,
    **dict.fromkeys(KEYS, texts),
    **dict.fromkeys(COUNTERS, counts),
    errors=st.dictionaries(texts, deviations(), max_size=3),
    latency_sent=histograms(),
    latency_virtual=histograms(),
    cpu_seconds=st.dictionaries(texts, seconds, max_size=3),
)


@given(rows)
def test_a_row_round_trips_through_json(row):
    text = json.dumps(to_document(row), allow_nan=False)
    assert from_document(json.loads(text)) == row


@given(rows, rows, rows)
def test_merging_is_associative_and_commutative(one, two, three):
    at_once = merge([one, two, three])
    assert merge([merge([one, two]), three]) == at_once
    assert merge([one, merge([two, three])]) == at_once
    assert merge([three, one, two]) == at_once


@given(rows)
def test_a_row_merged_alone_is_itself(row):
    assert merge([row]) == row


@given(rows, rows)
def test_merging_keeps_the_largest_error(one, other):
    both = merge([one, other])
    assert both.broken == one.broken + other.broken
    assert both.error_max == max((row.error_max for row in (one, other) if row.error_max is not None), default=None)
    assert both.frame_bytes == one.frame_bytes + other.frame_bytes


def test_merging_no_rows_is_rejected():
    with pytest.raises(LedgerError, match="no rows"):
        merge([])


def test_different_keys_are_merged_to_many():
    total = merge([Row("r", "rooms", role="publisher"), Row("r", "tanks", role="publisher")])
    assert (total.run, total.topic, total.role) == ("r", MANY, "publisher")


def test_savings_need_a_baseline():
    assert Row("r").saved is None
    assert Row("r").bytes_per_event is None
    assert Row("r", raw_bytes=1000, data_bytes=40, key_bytes=30, control_bytes=20, dictionary_bytes=10).saved == 0.9
    assert Row("r", raw_bytes=10, data_bytes=20).saved == -1.0


def test_an_unchecked_guarantee_does_not_count_as_met():
    assert Row("r").error_max is None
    assert Row("r").error_p99 is None


def test_a_tally_gives_a_row_and_continues():
    tally = RowTally("r", "rooms", "edge", "strict", "subscriber")
    tally.count(events=2, told_missing=1)
    tally.latencies([0.1, 0.2])
    tally.latency(5.0, virtual=True)
    tally.error("t", 0.0, 0.5)
    tally.error("t", 0.5, 0.5)
    row = tally.row()
    tally.count(events=5)
    tally.error("t", 1.0, 0.5)
    tally.latency(9.0)
    assert (row.class_, row.events, row.told_missing) == ("strict", 2, 1)
    assert (row.error_max, row.broken, row.latency_sent.most, row.latency_virtual.count) == (1.0, 0, 0.2, 1)
    after = tally.row()
    assert (after.events, after.error_max, after.broken, after.latency_sent.most) == (7, 2.0, 1, 9.0)


def test_an_invalid_count_changes_nothing():
    tally = RowTally("r")
    with pytest.raises(LedgerError, match="eventz"):
        tally.count(events=1, eventz=1)
    with pytest.raises(LedgerError, match="cannot decrease"):
        tally.count(frames=1, events=-1)
    assert tally.row() == Row("r")


@given(pairs)
def test_a_column_of_errors_and_single_errors_give_the_same_row(given_pairs):
    one_by_one, at_once = Deviation(), Deviation()
    for error, bound in given_pairs:
        one_by_one.add(error, bound)
    at_once.add_many([error for error, _ in given_pairs], [bound for _, bound in given_pairs])
    assert (at_once.ratios.count, at_once.broken, at_once.worst, at_once.ratio) == (
        one_by_one.ratios.count,
        one_by_one.broken,
        one_by_one.worst,
        one_by_one.ratio,
    )


def test_a_bound_of_zero_means_equal():
    deviation = Deviation()
    deviation.add(0.0, 0.0)
    assert (deviation.ratio, deviation.broken) == (0.0, 0)
    deviation.add(1e-9, 0.0)
    assert (deviation.ratio, deviation.broken) == (math.inf, 1)


@pytest.mark.parametrize(("error", "bound"), [(-1, 1), (1, -1), (math.nan, 1), (1, math.nan), (1, math.inf)])
def test_errors_and_bounds_are_finite_and_not_negative(error, bound):
    with pytest.raises(LedgerError, match="errors must be non-negative"):
        Deviation().add(error, bound)
    with pytest.raises(LedgerError, match="errors must be non-negative"):
        Deviation().add_many([error], [bound])


def broken_documents():
    good = to_document(Row("r"))
    yield {**good, "version": 2}, "version=2"
    yield {name: value for name, value in good.items() if name != "version"}, "version=None"
    yield {**good, "colour": "red"}, "colour"
    yield {**good, "events": -1}, "events"
    yield {**good, "events": True}, "events"
    yield {**good, "events": 1.5}, "events"
    yield {**good, "events": 1 << 63}, "events"
    yield {**good, "class": 7}, "class"
    yield {**good, "cpu_seconds": {"publisher": "fast"}}, "cpu_seconds.publisher"
    yield {**good, "cpu_seconds": {"publisher": math.nan}}, "cpu_seconds.publisher"
    yield {**good, "cpu_seconds": []}, "cpu_seconds"
    yield {**good, "errors": {"t": {"surprise": 1}}}, "surprise"
    yield {**good, "errors": {"t": {"worst": None}}}, "errors.t.worst"
    yield {**good, "latency_sent": {"count": 1}}, "latency_sent"
    yield {**good, "latency_sent": {"count": 1, "buckets": [[9, 1]]}}, "latency_sent.least"
    yield {**good, "latency_sent": {"count": 1, "buckets": [[9, 1]], "least": 2, "most": 1}}, "least is above most"
    yield {**good, "latency_sent": {"count": 1, "buckets": [[10_000, 1]], "least": 1, "most": 1}}, "bucket"
    yield {**good, "latency_sent": {"count": 1, "buckets": [7], "least": 1, "most": 1}}, "bucket"
    yield {**good, "latency_sent": {"count": 0, "buckets": {}}}, "list"
    yield [good], "must be an object"


@pytest.mark.parametrize(("document", "complaint"), list(broken_documents()))
def test_an_invalid_row_document_is_rejected_with_its_field(document, complaint):
    with pytest.raises(LedgerError) as caught:
        from_document(document)
    assert complaint in str(caught.value)


def test_omitted_fields_are_zero():
    assert from_document({"version": 1, "run": "r"}) == Row("r")
