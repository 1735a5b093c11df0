"""Ranges of a log as tables: for any range, the same rows as a reader from the beginning gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_table_setup import TOPIC, LogWriter, MemorySource, expected, in_order, landed, losses_in, readings, rooms

from thinwire.codec import Demand, StreamConfig
from thinwire.errors import DataLoss, DemandError, UnknownTopic
from thinwire.topics.log_tables.log_table import LogTable
from thinwire.topics.log_tables.offset_range import Range
from thinwire.topics.log_tables.raw_tables import read_frames
from thinwire.topics.names import log_of

LOG = log_of(TOPIC)
COARSE = StreamConfig(demand=Demand(tolerance={"t": 0.5, "time": 5_000}), max_silence=40.0)


def written(count: int = 400, publishers: int = 2, seed: int = 0, every: int = 97) -> MemorySource:
    """Return a copy of a log that a test may damage."""
    return _written(count, publishers, seed, every).copy()


@cache
def _written(count: int, publishers: int, seed: int, every: int) -> MemorySource:
    """Some publishers, occasional key frame rounds, and one publisher that restarts."""
    source, schema = MemorySource(), rooms()
    source.register(schema)
    out = [LogWriter(source, f"p{n}", schema, seed=seed, config=COARSE) for n in range(publishers)]
    for n, event in enumerate(readings(count, seed)):
        writing = out[n % publishers]
        writing.publish(event, float(n))
        if n % every == every - 1:
            writing.key_round(float(n))
        if n == count // 2:
            writing.flush()
            out[n % publishers] = LogWriter(source, writing.name, schema, seed=seed, incarnation=2, config=COARSE)
    for writing in out:
        writing.flush()
    return source


def ends_of(source: MemorySource) -> tuple[int, int]:
    span = source.span(LOG)
    return span.first, span.last


def test_a_complete_log_has_the_rows_of_a_reader_from_the_beginning() -> None:
    source = written()
    rows = landed(LogTable(source, TOPIC), *ends_of(source))
    assert len(rows) >= 390
    assert in_order(rows) == in_order(expected(source, [rooms()]))


@settings(max_examples=25)
@given(st.integers(0, 5), st.data())
def test_any_range_has_its_own_rows_and_no_others(seed: int, data: st.DataObject) -> None:
    source = written(seed=seed)
    first, last = ends_of(source)
    cut = sorted(data.draw(st.lists(st.integers(first, last), min_size=2, max_size=2)))
    rows = landed(LogTable(source, TOPIC), *cut)
    wanted = [row for row in expected(source, [rooms()]) if cut[0] <= row[8] <= cut[1]]
    assert in_order(rows) == in_order(wanted)


@settings(max_examples=10)
@given(st.integers(0, 3), st.integers(2, 60))
def test_the_next_range_continues_with_the_state_and_reads_no_message_twice(seed: int, width: int) -> None:
    source = written(seed=seed)
    first, last = ends_of(source)
    rows, state, read = [], None, 0
    for start in range(first, last + 1, width):
        landing = LogTable(source, TOPIC)
        rows += landed(landing, start, min(start + width - 1, last), state)
        state = landing.state()
        read += landing.counts.replayed
    assert in_order(rows) == in_order(expected(source, [rooms()]))
    assert read <= 0.1 * (last - first)


def test_a_state_of_another_offset_or_log_is_ignored() -> None:
    source = written()
    first, last = ends_of(source)
    landing = LogTable(source, TOPIC)
    landed(landing, first, 50)
    state = landing.state()
    assert state is not None
    wanted = [row for row in expected(source, [rooms()]) if row[8] >= 80]
    other = written(seed=9)
    spoilt = state[:-1] + bytes([state[-1] ^ 1])
    assert in_order(landed(LogTable(source, TOPIC), 80, last, state)) == in_order(wanted)
    assert in_order(landed(LogTable(source, TOPIC), 51, last, spoilt)) == in_order(
        [row for row in expected(source, [rooms()]) if row[8] >= 51]
    )
    other.messages[LOG] = [stored._replace(time=stored.time + 7) for stored in other.messages[LOG]]
    wanted = [row for row in expected(other, [rooms()]) if row[8] >= 51]
    assert in_order(landed(LogTable(other, TOPIC), 51, ends_of(other)[1], state)) == in_order(wanted)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_cover_the_range_and_their_seeks_are_short(parts: int) -> None:
    source = written(4_000, publishers=1, every=150)
    first, last = ends_of(source)
    ranges = LogTable(source, TOPIC).split(first, last, parts)
    assert len(ranges) == parts
    assert [one.first for one in ranges] == [first, *(one.last + 1 for one in ranges[:-1])]
    assert ranges[-1].last == last
    landings = [LogTable(source, TOPIC) for _ in ranges]
    rows = [row for landing, one in zip(landings, ranges, strict=True) for row in landed(landing, one.first, one.last)]
    assert rows == expected(source, [rooms()])
    assert sum(landing.counts.replayed for landing in landings) <= 0.3 * (last - first)


def test_removed_messages_are_an_error_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = written()
    first, last = ends_of(source)
    everything = expected(source, [rooms()])
    del source.messages[LOG][:60]
    with pytest.raises(DataLoss, match=r"offset=1, last=60, option='failOnDataLoss'"):
        landed(LogTable(source, TOPIC), first, last)
    landing = LogTable(source, TOPIC, fail_on_data_loss=False)
    rows = landed(landing, first, last)
    assert [(loss.offset, loss.last) for loss in losses_in(caplog)] == [(1, 60)]
    assert {row[5:8] for row in rows} <= {row[5:8] for row in everything}
    assert len(rows) > 200


def test_only_requested_columns_are_made() -> None:
    source = written()
    first, last = ends_of(source)
    wanted = ["room", "t", "_topic", "_virtual"]
    complete = pa.Table.from_batches(LogTable(source, TOPIC).rows(first, last))
    some = pa.Table.from_batches(LogTable(source, TOPIC, columns=set(wanted)).rows(first, last))
    assert some.equals(complete.select(wanted))


def test_a_recreated_log_has_no_rows_of_the_deleted_one() -> None:
    source = written()
    first, last = ends_of(source)
    for read in (
        lambda **options: landed(LogTable(source, TOPIC, **options), first, last),
        _frames_of(source, first, last),
    ):
        with pytest.raises(DataLoss, match=rf"deleted.*offset={first}, last={last}, option='failOnDataLoss'"):
            read(log_id="another")
        assert read(log_id="another", fail_on_data_loss=False) == []
        assert read(log_id=source.span(LOG).log_id) != []


def _frames_of(source: MemorySource, first: int, last: int) -> Callable[..., list[Any]]:
    return lambda **options: list(read_frames(source, TOPIC, Range(first, last), **options))


def test_a_gap_is_an_error_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = written()
    first, last = ends_of(source)
    del source.messages[LOG][100:103]
    with pytest.raises(DataLoss, match=r"offset=101, last=103"):
        landed(LogTable(source, TOPIC), first, last)
    landing = LogTable(source, TOPIC, fail_on_data_loss=False)
    rows = landed(landing, first, last)
    assert [(loss.offset, loss.last) for loss in losses_in(caplog) if "last" in loss.facts] == [(101, 103)]
    behind = landed(LogTable(source, TOPIC, fail_on_data_loss=False), 104, last)
    assert in_order(behind) == in_order([row for row in rows if row[8] >= 104])


def test_an_unreadable_message_is_an_error_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = written(publishers=1)
    first, last = ends_of(source)
    index = next(n for n, stored in enumerate(source.messages[LOG]) if n > 80 and stored.subject.endswith(".d"))
    spoilt = source.messages[LOG][index]
    source.messages[LOG][index] = spoilt._replace(payload=spoilt.payload[:-1] + bytes([spoilt.payload[-1] ^ 0x55]))
    with pytest.raises(DataLoss, match=rf"offset={spoilt.offset}.*option='failOnDataLoss'"):
        landed(LogTable(source, TOPIC), first, last)
    landing = LogTable(source, TOPIC, fail_on_data_loss=False)
    assert landed(landing, first, last) == expected(source, [rooms()])
    assert losses_in(caplog)[0].offset == spoilt.offset


def test_messages_after_an_unreadable_one_are_lost_too() -> None:
    source = written(publishers=1, every=10_000)
    log = source.messages[LOG]
    index = next(n for n, stored in enumerate(log) if n > 20 and stored.subject.endswith(".d"))
    log[index] = log[index]._replace(payload=b"\x00garbage")
    with pytest.raises(DataLoss, match=rf"offset={log[index + 2].offset}"):
        landed(LogTable(source, TOPIC), log[index + 2].offset, log[-1].offset)


def test_a_bound_above_the_tolerance_is_reported_with_its_offset() -> None:
    source = written()
    first, last = ends_of(source)
    fine = LogTable(source, TOPIC, demand=Demand(tolerance={"t": 0.5}))
    assert len(landed(fine, first, last)) >= 390
    with pytest.raises(DemandError, match=r"offset=\d+, property='t', bound=0.5, tolerance=0.4"):
        landed(LogTable(source, TOPIC, demand=Demand(tolerance={"t": 0.4})), first, last)


def test_an_unregistered_topic_is_refused() -> None:
    with pytest.raises(UnknownTopic):
        LogTable(MemorySource(), TOPIC)
