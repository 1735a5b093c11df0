"""One order across several feeds: watermarks, waiting, late events, clocks that run backwards."""

import math

import pytest

from thinwire.errors import ConfigError
from thinwire.filters.composite.condition import Quantity
from thinwire.filters.composite.feed_sequencer import (
    EventReadings,
    FeedPosition,
    LogEntry,
    Order,
    Sequencer,
    WatchInput,
)

HERE, THERE = WatchInput("market", "here"), WatchInput("market", "there")
X = Quantity("market", ("x",), "price")


def entry(feed, offset, *times, complete=None, source="x", ordinal=None, incarnation=0):
    first = offset if ordinal is None else ordinal
    readings = [EventReadings(Order(t, *feed, incarnation, first + n, source), {X: t}) for n, t in enumerate(times)]
    return LogEntry(feed, offset, tuple(readings), complete)


def times(released):
    return [tuple(reading.order.time for reading in found.readings) for found in released]


def test_nothing_is_released_before_every_feed_is_complete():
    sequencer = Sequencer()
    sequencer.add_feeds([HERE, THERE])
    sequencer.offer(entry(HERE, 1, 10, 20, complete=20), now=0)
    assert times(sequencer.released(0)) == []
    sequencer.offer(entry(THERE, 1, 15, complete=15), now=0)
    assert times(sequencer.released(0)) == [(10,), (15,)]
    sequencer.offer(entry(THERE, 2, complete=30), now=0)
    assert times(sequencer.released(0)) == [(20,)]


def test_equal_times_are_ordered_by_topic_publisher_and_number():
    sequencer = Sequencer()
    sequencer.offer(entry(THERE, 1, 5, complete=9), now=0)
    sequencer.offer(entry(HERE, 1, 5, 5, complete=9), now=0)
    sequencer.offer(entry(WatchInput("aaa", "z"), 1, 5, complete=9), now=0)
    found = [released.readings[0].order for released in sequencer.released(0)]
    assert [(order.topic, order.publisher, order.ordinal) for order in found] == [
        ("aaa", "z", 1),
        ("market", "here", 1),
        ("market", "here", 2),
        ("market", "there", 1),
    ]


def test_an_overdue_reading_is_released_with_all_earlier_ones():
    sequencer = Sequencer(max_delay=2)
    sequencer.add_feeds([THERE])
    sequencer.offer(entry(HERE, 1, 20, complete=20), now=0)
    sequencer.offer(entry(HERE, 2, 15, source="y"), now=1)
    assert sequencer.deadline == 2
    assert times(sequencer.released(1.9)) == []
    assert times(sequencer.released(2)) == [(15,), (20,)]
    assert sequencer.deadline is None


def test_a_late_reading_is_applied_with_a_flag_or_dropped():
    apply, drop = Sequencer(), Sequencer(late_policy="drop")
    for sequencer in (apply, drop):
        sequencer.offer(entry(HERE, 1, 20, complete=20), now=0)
        list(sequencer.released(0))
        sequencer.offer(entry(THERE, 1, 10, complete=30), now=0)
    assert [(found.late, found.readings[0].order.time) for found in apply.released(0)] == [(True, 10)]
    assert list(drop.released(0)) == []


def test_a_clock_running_backwards_does_not_reorder_a_source():
    sequencer = Sequencer()
    sequencer.offer(entry(HERE, 1, 100, 40, 50, 101, complete=200), now=0)
    found = [released.readings[0] for released in sequencer.released(0)]
    assert [(reading.order.time, reading.values[X]) for reading in found] == [
        (100, 100),
        (100, 40),
        (100, 50),
        (101, 101),
    ]


def test_repeated_readings_are_ignored():
    sequencer = Sequencer()
    for _ in range(2):
        sequencer.offer(entry(HERE, 1, 10, complete=10), now=0)
    assert times(sequencer.released(0)) == [(10,)]
    sequencer.offer(entry(HERE, 2, 11, complete=20, ordinal=0, incarnation=1), now=0)
    assert times(sequencer.released(0)) == [(11,)]


def test_readings_of_equal_time_are_released_together_with_group_by_time():
    sequencer = Sequencer(group_by_time=True)
    sequencer.offer(entry(HERE, 1, 1, 1, 2, complete=2), now=0)
    sequencer.offer(entry(THERE, 1, 1, 2, complete=1), now=0)
    assert times(sequencer.released(0)) == [(1, 1, 1)]
    sequencer.offer(entry(THERE, 2, 1, complete=2, source="y"), now=0)
    assert [(found.late, len(found.readings)) for found in sequencer.released(0)] == [(True, 1), (False, 2)]


def test_an_ended_feed_is_not_waited_for_until_its_next_entry():
    sequencer = Sequencer()
    sequencer.add_feeds([THERE])
    sequencer.offer(entry(HERE, 1, 10, complete=10), now=0)
    assert times(sequencer.released(0)) == []
    sequencer.end_feed(THERE)
    assert times(sequencer.released(0)) == [(10,)]
    sequencer.offer(entry(THERE, 1), now=0)
    sequencer.offer(entry(HERE, 2, 11, complete=11), now=0)
    assert times(sequencer.released(0)) == []


def test_positions_stay_before_waiting_readings_with_the_watermark_at_that_point():
    sequencer = Sequencer()
    sequencer.offer(entry(HERE, 1, 10, complete=10), now=0)
    sequencer.offer(entry(HERE, 2, 30, source="y"), now=0)
    sequencer.offer(entry(HERE, 3, 20, complete=20), now=0)
    assert times(sequencer.released(0)) == [(10,), (20,)]
    assert sequencer.positions() == {HERE: FeedPosition(1, 10)}
    sequencer.offer(entry(HERE, 4, complete=40), now=0)
    assert times(sequencer.released(0)) == [(30,)]
    assert sequencer.positions() == {HERE: FeedPosition(4, 40)}


def test_the_number_of_waiting_readings_is_bounded(monkeypatch):
    monkeypatch.setattr("thinwire.filters.composite.feed_sequencer.MAX_WAITING", 2)
    sequencer = Sequencer()
    sequencer.offer(entry(HERE, 1, 1, 2, 3, 4), now=0)
    assert times(sequencer.released(0)) == [(1,), (2,)]


@pytest.mark.parametrize("max_delay", [-1, math.nan])
def test_a_delay_is_zero_or_more(max_delay):
    with pytest.raises(ConfigError, match="max_delay"):
        Sequencer(max_delay)


def test_a_late_policy_is_one_of_two():
    with pytest.raises(ConfigError, match="late_policy"):
        Sequencer(late_policy="ignore")
