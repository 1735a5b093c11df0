"""Thresholds change hands while events are under way: nothing is lost, doubled or out of order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord import Keeper, Numbering
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy

THRESHOLDS = [0, 2, 5, 9]
walks = st.lists(st.integers(-12, 12), min_size=1, max_size=30)


def expected(values, threshold, start=0):
    return [(threshold, n + 1, values[n]) for n in greedy(np.array(values), threshold, start)]


def of(deliveries, threshold):
    return [d for d in deliveries if d[0] == threshold]


@given(walks, st.data())
def test_a_chain_of_keepers_delivers_what_one_would(values, data):
    """Events go to whoever the source thinks is in charge; state and events arrive in any order."""
    numbering, keepers, states, found = Numbering(), [Keeper(THRESHOLDS, value=0)], {}, []
    inboxes = {0: []}

    def pass_on(place, event):
        inboxes[place + 1].append(event)

    def step(place):
        event = inboxes[place].pop(data.draw(st.integers(0, len(inboxes[place]) - 1)))
        if keepers[place].frozen:
            pass_on(place, event)
        else:
            found.extend(keepers[place].receive(event))

    for value in values:
        event = numbering.event(value)
        inboxes[data.draw(st.integers(max(0, len(keepers) - 2), len(keepers) - 1))].append(event)
        newest = keepers[-1]
        if data.draw(st.booleans()) and newest.number is not None:
            states[len(keepers)] = newest.hand_over()
            inboxes[len(keepers)] = newest.waiting()
            keepers.append(Keeper(THRESHOLDS))
        for place in [p for p in inboxes if inboxes[p] and data.draw(st.booleans())]:
            step(place)
        for place in [p for p in states if data.draw(st.booleans())]:
            found.extend(keepers[place].take(states.pop(place)))
    for place, state in sorted(states.items()):
        found.extend(keepers[place].take(state))
    for place in range(len(keepers)):
        while inboxes[place]:
            step(place)
    for threshold in THRESHOLDS:
        assert of(found, threshold) == expected(values, threshold)
    assert keepers[-1].gap is None


@given(walks, st.integers(0, 29))
def test_a_lost_event_is_noticed_by_the_next(values, place):
    numbering, keeper = Numbering(), Keeper(THRESHOLDS, value=0)
    events = [numbering.event(value) for value in values]
    lost = events.pop(place % len(events))
    for event in events:
        keeper.receive(event)
    later = [event for event in events if event.number > lost.number]
    assert keeper.gap == ((lost.previous, lost.number) if later else None)
    keeper.receive(lost)
    assert keeper.gap is None


@given(walks, walks)
def test_after_a_crash_the_next_value_is_delivered_to_all(before, after):
    numbering = Numbering()
    for value in before:
        numbering.event(value)
    keeper = Keeper.after_crash(THRESHOLDS, numbering.sent)
    found = [d for value in after for d in keeper.receive(numbering.event(value))]
    for threshold in THRESHOLDS:
        places = greedy(np.array(after), threshold)
        assert [(n - len(before) - 1, x) for _, n, x in of(found, threshold)] == [(p, after[p]) for p in places]


def test_what_is_skipped_leaves_no_gap():
    numbering, keeper = Numbering(), Keeper([5], value=0)
    assert keeper.receive(numbering.event(6)) == [(5, 1, 6)]
    numbering.skip()
    assert keeper.receive(numbering.event(20)) == [(5, 3, 20)]


def test_what_comes_twice_counts_once():
    numbering, keeper = Numbering(), Keeper([5], value=0)
    event = numbering.event(6)
    assert keeper.receive(event)
    assert keeper.receive(event) == []
    assert keeper.gap is None


def test_a_node_takes_no_events_after_its_handover():
    keeper = Keeper([5], value=0)
    keeper.hand_over()
    with pytest.raises(ConfigError, match="send the event to its successor"):
        keeper.receive(Numbering().event(1))
    with pytest.raises(ConfigError, match="wait for its state"):
        Keeper([5]).hand_over()
