"""An evaluator killed at any point resumes from its own output, without loss or duplicates."""

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
def histories(draw, late):
    """Entries of all feeds in order of arrival. Watermarks are correct unless `late`, which allows late events."""
    entries, seen = [], {feed: [0, -1, {}] for feed in FEEDS}
    for _ in range(draw(st.integers(1, 14))):
        feed = draw(st.sampled_from(FEEDS))
        at = seen[feed]
        at[0] += 1
        readings = [_reading(draw, feed, at, late) for _ in range(draw(st.integers(0, 2)))]
        ahead = draw(st.one_of(st.none(), st.integers(0, 4)))
        if ahead is not None:
            at[1] += ahead
        entries.append(LogEntry(feed, at[0], tuple(readings), None if ahead is None else at[1]))
    return entries


def _reading(draw, feed, at, late):
    quantity = next(q for q in QUANTITIES if q.topic == feed.topic)
    source = draw(st.sampled_from(["m", "n"]))
    at[2][source] = number = at[2].get(source, 0) + 1
    time = draw(st.integers(0, 12)) if late else at[1] + draw(st.integers(1, 5))
    return EventReadings(Order(time, *feed, 0, number, source), {quantity: draw(st.integers(-4, 4))})


CLOSING = [LogEntry(feed, 1_000, (), 1_000) for feed in FEEDS]


def run(condition, entries, state=None, **settings):
    evaluator = Evaluator(condition, state, **settings)
    evaluator.add_feeds(FEEDS)
    return [message for entry in entries for message in evaluator.read(entry, now=0)]


def unread(entries, state):
    """Return the entries after the positions of a state."""
    at = {feed: -1 if position.offset is None else position.offset for feed, position in state.positions.items()}
    return [entry for entry in entries if entry.offset > at.get(entry.feed, -1)]


def state_of(condition, messages):
    return reduce(WatchState.advance, messages, WatchState(condition.fingerprint))


def deliveries_in(condition, messages):
    return [message.delivery(condition) for message in messages if message.order is not None]


@settings(max_examples=60)
@given(formulas(quantities=3), histories(late=True), st.booleans(), st.sampled_from(["apply", "drop"]))
def test_a_run_interrupted_anywhere_resumes_with_the_same_notifications(formula, entries, group_by_time, late_policy):
    condition, entries = condition_of(formula), entries + CLOSING
    how = {"group_by_time": group_by_time, "late_policy": late_policy}
    complete_run = run(condition, entries, **how)
    for cut in range(len(complete_run) + 1):
        state = state_of(condition, complete_run[:cut])
        rest = run(condition, unread(entries, state), state, **how)
        assert deliveries_in(condition, complete_run[:cut] + rest) == deliveries_in(condition, complete_run)


@settings(max_examples=40)
@given(formulas(quantities=3), histories(late=False), st.data())
def test_runs_resume_from_position_messages_with_feeds_read_in_another_order(formula, entries, data):
    condition, entries = condition_of(formula), entries + CLOSING
    complete_run = deliveries_in(condition, run(condition, entries))
    evaluator, messages = Evaluator(condition), []
    evaluator.add_feeds(FEEDS)
    for entry in entries[: data.draw(st.integers(0, len(entries)))]:
        messages += evaluator.read(entry, now=0)
    messages.append(evaluator.position_message())
    state = state_of(condition, messages)
    assert state == evaluator.state
    again = data.draw(st.permutations(unread(entries, state)))
    again.sort(key=lambda entry: entry.offset)
    assert deliveries_in(condition, messages + run(condition, again, state)) == complete_run


@settings(max_examples=60)
@given(formulas(quantities=3), histories(late=False))
def test_an_evaluator_notifies_like_the_reference_in_the_common_order(formula, entries):
    condition, reference = condition_of(formula), Reference(formula)
    found = [message.delivery(condition) for message in run(condition, entries + CLOSING)]
    readings = sorted((r for entry in entries for r in entry.readings), key=lambda r: r.order)
    expected = [
        reference.step({QUANTITIES.index(q): v for q, v in r.values.items()}) for r in _lifted(readings, entries)
    ]
    assert [named(delivery) for delivery in found] == [step for step in expected if step]


def _lifted(readings, entries):
    """Return the readings in order, with times that never decrease within a source of the log."""
    last, lifted = {}, []
    for reading in (r for entry in entries for r in entry.readings):
        key = reading.order.feed, reading.order.source
        time = max(reading.order.time, last.get(key, reading.order.time))
        last[key] = time
        lifted.append(EventReadings(reading.order._replace(time=time), reading.values))
    assert len(lifted) == len(readings)
    return sorted(lifted, key=lambda r: r.order)


@given(formulas(quantities=3), histories(late=True))
@settings(max_examples=30)
def test_messages_and_state_survive_encoding_as_json(formula, entries):
    condition = condition_of(formula)
    messages = run(condition, entries + CLOSING)
    assert [from_document(json.loads(json.dumps(to_document(message)))) for message in messages] == messages
    state = state_of(condition, messages)
    snapshot = from_document(json.loads(json.dumps(to_document(state.to_message()))))
    assert WatchState(condition.fingerprint, number=snapshot.number).advance(snapshot) == state


def resumed_deliveries(formula, before, after, **settings):
    """Return the deliveries after an interruption right behind `before`, whose last entry notifies."""
    condition = condition_of(formula)
    state = state_of(condition, run(condition, before, **settings))
    return [message.delivery(condition) for message in run(condition, after, state, **settings)]


def entry(feed, offset, time, value, number=1):
    quantity = next(q for q in QUANTITIES if q.topic == feed.topic)
    return LogEntry(feed, offset, (EventReadings(Order(time, *feed, 0, number), {quantity: value}),), time)


def complete(time, *but):
    return [LogEntry(feed, time, (), time) for feed in FEEDS if feed not in but]


def test_a_resumed_evaluator_has_changes_that_were_not_notified():
    """Quantity 0 changes without a notification, as 1 did not; 2 is notified; after the restart 1 changes."""
    formula = ("or", ("and", (0, 1), (1, 1)), (2, 1))
    start = [entry(FEEDS[n], 1, 1, 0) for n in range(3)]
    before = [*start, entry(FEEDS[0], 2, 2, 7, 2), entry(FEEDS[2], 2, 3, 5, 2), *complete(3)]
    (delivery,) = resumed_deliveries(
        formula, before, [entry(FEEDS[1], 9, 4, 9, 2), *complete(9, FEEDS[1]), *complete(10)]
    )
    assert named(delivery) == {0: 7, 1: 9}


@pytest.mark.parametrize("late_policy", ["apply", "drop"])
def test_a_resumed_evaluator_recognises_late_events(late_policy):
    before = [entry(FEEDS[0], 1, 20, 5), *complete(20, FEEDS[0])]
    after = [entry(FEEDS[1], 30, 10, 5), *complete(40)]
    found = resumed_deliveries(("or", (0, 1), (1, 1)), before, after, late_policy=late_policy)
    assert [delivery.late for delivery in found] == ([True] if late_policy == "apply" else [])


def test_a_late_reading_does_not_replace_a_newer_one_of_another_publisher():
    quantity = QUANTITIES[0]
    here, there = FEEDS[0], FEEDS[3]
    evaluator = Evaluator(condition_of((0, 1)))
    first = evaluator.read(LogEntry(here, 1, (EventReadings(Order(20, *here), {quantity: 5}),), 20), now=0)
    stale = evaluator.read(LogEntry(there, 1, (EventReadings(Order(10, *there), {quantity: 50}),), 20), now=0)
    assert (len(first), stale) == (1, [])
    assert evaluator.position_message().latest == {}


def test_waiting_ends_after_the_delay_and_later_events_are_flagged():
    near, far = QUANTITIES[:2]
    evaluator = Evaluator(condition_of(("or", (0, 1), (1, 1))), max_delay=1.0)
    evaluator.add_feeds(FEEDS[:2])
    assert evaluator.read(LogEntry(FEEDS[0], 1, (EventReadings(Order(20, *FEEDS[0]), {near: 5}),), 20), now=0) == []
    assert evaluator.deadline == 1.0
    (overdue,) = evaluator.advance(now=1.0)
    (late,) = evaluator.read(LogEntry(FEEDS[1], 1, (EventReadings(Order(10, *FEEDS[1]), {far: 5}),), 20), now=1.5)
    assert (overdue.late, late.late, late.number) == (False, True, 2)


def test_a_log_with_missing_messages_is_rejected():
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
def test_invalid_message_documents_are_rejected(document):
    with pytest.raises(CorruptWatchLog):
        from_document(document)


def test_state_with_an_unknown_quantity_is_rejected():
    condition = condition_of((0, 1))
    with pytest.raises(CorruptWatchLog, match="index=7"):
        Evaluator(condition, WatchState(condition.fingerprint, held={7: 1}))
