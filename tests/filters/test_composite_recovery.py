"""An evaluator that dies anywhere is continued from its own output: nothing missed, nothing twice."""

import json
from functools import reduce

import pytest
from composite_reference import QUANTITIES, Reference, condition_of, formulas, named
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.errors import CorruptWatchLog
from thinwire.filters.composite.feed_sequencer import EventReadings, LogEntry, Order, WatchInput
from thinwire.filters.composite.watch_evaluator import Evaluator
from thinwire.filters.composite.watch_messages import WatchMessage, WatchState, from_document, to_document

FEEDS = [WatchInput(quantity.topic, "p") for quantity in QUANTITIES[:3]] + [WatchInput(QUANTITIES[0].topic, "q")]


@st.composite
def histories(draw, tardy):
    """Entries of all feeds as they arrive. Without `tardy` watermarks are true; with it any event may be late."""
    entries, seen = [], {feed: [0, -1, {}] for feed in FEEDS}
    for _ in range(draw(st.integers(1, 14))):
        feed = draw(st.sampled_from(FEEDS))
        at = seen[feed]
        at[0] += 1
        readings = [_reading(draw, feed, at, tardy) for _ in range(draw(st.integers(0, 2)))]
        ahead = draw(st.one_of(st.none(), st.integers(0, 4)))
        if ahead is not None:
            at[1] += ahead
        entries.append(LogEntry(feed, at[0], tuple(readings), None if ahead is None else at[1]))
    return entries


def _reading(draw, feed, at, tardy):
    quantity = next(q for q in QUANTITIES if q.topic == feed.topic)
    source = draw(st.sampled_from(["m", "n"]))
    at[2][source] = number = at[2].get(source, 0) + 1
    time = draw(st.integers(0, 12)) if tardy else at[1] + draw(st.integers(1, 5))
    return EventReadings(Order(time, *feed, 0, number, source), {quantity: draw(st.integers(-4, 4))})


CLOSING = [LogEntry(feed, 1_000, (), 1_000) for feed in FEEDS]


def run(condition, entries, state=None, **settings):
    evaluator = Evaluator(condition, state, **settings)
    evaluator.add_feeds(FEEDS)
    return [message for entry in entries for message in evaluator.read(entry, now=0)]


def unread(entries, state):
    """What the logs still hold behind the positions of a state."""
    at = {feed: -1 if position.offset is None else position.offset for feed, position in state.positions.items()}
    return [entry for entry in entries if entry.offset > at.get(entry.feed, -1)]


def state_of(condition, messages):
    return reduce(WatchState.advance, messages, WatchState(condition.fingerprint))


def told(condition, messages):
    return [message.delivery(condition) for message in messages if message.order is not None]


@settings(max_examples=60)
@given(formulas(quantities=3), histories(tardy=True), st.booleans(), st.sampled_from(["apply", "drop"]))
def test_a_run_that_is_cut_anywhere_goes_on_with_the_same_notifications(formula, entries, group_by_time, late_policy):
    condition, entries = condition_of(formula), entries + CLOSING
    how = {"group_by_time": group_by_time, "late_policy": late_policy}
    whole = run(condition, entries, **how)
    for cut in range(len(whole) + 1):
        state = state_of(condition, whole[:cut])
        rest = run(condition, unread(entries, state), state, **how)
        assert told(condition, whole[:cut] + rest) == told(condition, whole)


@settings(max_examples=40)
@given(formulas(quantities=3), histories(tardy=False), st.data())
def test_bookmarks_are_cuts_too_and_feeds_may_be_read_again_in_another_order(formula, entries, data):
    condition, entries = condition_of(formula), entries + CLOSING
    whole = told(condition, run(condition, entries))
    evaluator, messages = Evaluator(condition), []
    evaluator.add_feeds(FEEDS)
    for entry in entries[: data.draw(st.integers(0, len(entries)))]:
        messages += evaluator.read(entry, now=0)
    messages.append(evaluator.position_message())
    state = state_of(condition, messages)
    assert state == evaluator.state
    again = data.draw(st.permutations(unread(entries, state)))
    again.sort(key=lambda entry: entry.offset)
    assert told(condition, messages + run(condition, again, state)) == whole


@settings(max_examples=60)
@given(formulas(quantities=3), histories(tardy=False))
def test_an_evaluator_notifies_as_the_reference_does_in_the_one_order(formula, entries):
    condition, reference = condition_of(formula), Reference(formula)
    found = [message.delivery(condition) for message in run(condition, entries + CLOSING)]
    readings = sorted((r for entry in entries for r in entry.readings), key=lambda r: r.order)
    expected = [
        reference.step({QUANTITIES.index(q): v for q, v in r.values.items()}) for r in _lifted(readings, entries)
    ]
    assert [named(delivery) for delivery in found] == [step for step in expected if step]


def _lifted(readings, entries):
    """In order, each no earlier than the one before it of its source: by hand, over the log."""
    last, lifted = {}, []
    for reading in (r for entry in entries for r in entry.readings):
        key = reading.order.feed, reading.order.source
        time = max(reading.order.time, last.get(key, reading.order.time))
        last[key] = time
        lifted.append(EventReadings(reading.order._replace(time=time), reading.values))
    assert len(lifted) == len(readings)
    return sorted(lifted, key=lambda r: r.order)


@given(formulas(quantities=3), histories(tardy=True))
@settings(max_examples=30)
def test_messages_and_state_travel_as_plain_values(formula, entries):
    condition = condition_of(formula)
    messages = run(condition, entries + CLOSING)
    assert [from_document(json.loads(json.dumps(to_document(message)))) for message in messages] == messages
    state = state_of(condition, messages)
    snapshot = from_document(json.loads(json.dumps(to_document(state.to_message()))))
    assert WatchState(condition.fingerprint, number=snapshot.number).advance(snapshot) == state


def told_by_successor(formula, before, after, **settings):
    """What is told behind a cut right after the entries `before`, the last of which notifies."""
    condition = condition_of(formula)
    state = state_of(condition, run(condition, before, **settings))
    return [message.delivery(condition) for message in run(condition, after, state, **settings)]


def entry(feed, offset, time, value, number=1):
    quantity = next(q for q in QUANTITIES if q.topic == feed.topic)
    return LogEntry(feed, offset, (EventReadings(Order(time, *feed, 0, number), {quantity: value}),), time)


def complete(time, *but):
    return [LogEntry(feed, time, (), time) for feed in FEEDS if feed not in but]


def test_a_successor_knows_what_moved_before_without_having_been_told():
    """Quantity 0 moves and nobody is told, since 1 is quiet; 2 is told; then the evaluator dies, and 1 moves."""
    formula = ("or", ("and", (0, 1), (1, 1)), (2, 1))
    start = [entry(FEEDS[n], 1, 1, 0) for n in range(3)]
    before = [*start, entry(FEEDS[0], 2, 2, 7, 2), entry(FEEDS[2], 2, 3, 5, 2), *complete(3)]
    (delivery,) = told_by_successor(
        formula, before, [entry(FEEDS[1], 9, 4, 9, 2), *complete(9, FEEDS[1]), *complete(10)]
    )
    assert named(delivery) == {0: 7, 1: 9}


@pytest.mark.parametrize("late_policy", ["apply", "drop"])
def test_a_successor_knows_what_is_late(late_policy):
    before = [entry(FEEDS[0], 1, 20, 5), *complete(20, FEEDS[0])]
    after = [entry(FEEDS[1], 30, 10, 5), *complete(40)]
    found = told_by_successor(("or", (0, 1), (1, 1)), before, after, late_policy=late_policy)
    assert [delivery.late for delivery in found] == ([True] if late_policy == "apply" else [])


def test_a_late_reading_does_not_turn_back_what_another_publisher_has_told():
    quantity = QUANTITIES[0]
    here, there = FEEDS[0], FEEDS[3]
    evaluator = Evaluator(condition_of((0, 1)))
    first = evaluator.read(LogEntry(here, 1, (EventReadings(Order(20, *here), {quantity: 5}),), 20), now=0)
    stale = evaluator.read(LogEntry(there, 1, (EventReadings(Order(10, *there), {quantity: 50}),), 20), now=0)
    assert (len(first), stale) == (1, [])
    assert evaluator.position_message().latest == {}


def test_waiting_ends_with_the_delay_and_what_comes_then_is_flagged():
    near, far = QUANTITIES[:2]
    evaluator = Evaluator(condition_of(("or", (0, 1), (1, 1))), max_delay=1.0)
    evaluator.add_feeds(FEEDS[:2])
    assert evaluator.read(LogEntry(FEEDS[0], 1, (EventReadings(Order(20, *FEEDS[0]), {near: 5}),), 20), now=0) == []
    assert evaluator.deadline == 1.0
    (overdue,) = evaluator.advance(now=1.0)
    (late,) = evaluator.read(LogEntry(FEEDS[1], 1, (EventReadings(Order(10, *FEEDS[1]), {far: 5}),), 20), now=1.5)
    assert (overdue.late, late.late, late.number) == (False, True, 2)


def test_a_log_with_a_hole_is_refused():
    condition = condition_of((0, 1))
    state = WatchState(condition.fingerprint)
    with pytest.raises(CorruptWatchLog, match="missing or repeated"):
        state.advance(WatchMessage(condition.fingerprint, 2, order=Order(1)))
    with pytest.raises(CorruptWatchLog, match="another condition"):
        state.advance(WatchMessage("0" * 16, 1, order=Order(1)))
    with pytest.raises(CorruptWatchLog, match="another condition"):
        Evaluator(condition_of((0, 2)), state)


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"watch": "a"}, {"watch": 1, "number": 1}, {"watch": "a", "number": True}]
    + [
        {"watch": "a", "number": 1, name: bad}
        for name in ("held", "latest", "positions", "settled")
        for bad in (3, [3])
    ]
    + [{"watch": "a", "number": 1, "order": [1, 2]}, {"watch": "a", "number": 1, "held": [[0, 1.5]]}],
)
def test_what_is_no_message_is_refused_by_name(document):
    with pytest.raises(CorruptWatchLog):
        from_document(document)


def test_state_that_names_a_quantity_that_is_not_there_is_refused():
    condition = condition_of((0, 1))
    with pytest.raises(CorruptWatchLog, match="index=7"):
        Evaluator(condition, WatchState(condition.fingerprint, held={7: 1}))
