"""Reducers that share a roster do what they would do alone, whatever order they meet their sources in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, Introduction, Reducer, resolve
from thinwire.codec.source_table import Roster
from thinwire.errors import TooManySources
from thinwire.schema import Event, Property, Schema

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
RULES = resolve(ROOMS, Demand({"t": 0.5}, mode="hold"))
WALKS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abcde"), st.integers(0, 40)), max_size=60)


def heard(room, ticks):
    return Event({"room": room, "t": ticks / 10}, bound={}, source=(room,), ordinal=7)


def validated(roster=None, **limits):
    return Reducer(RULES, validated=True, roster=roster, **limits)


@given(WALKS)
def test_sharing_changes_nothing(walk):
    roster = Roster()
    together, alone = [validated(roster) for _ in range(3)], [validated() for _ in range(3)]
    for which, room, ticks in walk:
        event = heard(room, ticks)
        assert together[which].reduce(event) == alone[which].reduce(event)
    for one, other in zip(together, alone, strict=True):
        assert one.keys == other.keys
        assert [one.row_of((room,)) for room in "abcdef"] == [other.row_of((room,)) for room in "abcdef"]
        assert [one.dimensions(row) for row in range(len(one.keys))] == [f'["{key}"]'.encode() for (key,) in other.keys]


def test_who_meets_the_same_sources_stays_with_the_roster():
    roster = Roster()
    first, second = validated(roster), validated(roster)
    for reducer in (first, second):
        for room in "abc":
            assert isinstance(reducer.reduce(heard(room, 200)), Introduction)
    assert first.roster is second.roster is roster
    first.reduce(heard("d", 200))
    assert (first.row_of(("d",)), second.row_of(("d",))) == (3, None)


def test_who_meets_another_source_leaves_the_roster_as_it_is():
    roster = Roster()
    first, second = validated(roster), validated(roster)
    for reducer, rooms in ((first, "abc"), (second, "acb")):
        for room in rooms:
            reducer.reduce(heard(room, 200))
    assert first.roster is roster
    assert (first.keys, second.keys) == ([("a",), ("b",), ("c",)], [("a",), ("c",), ("b",)])


def test_the_sources_of_others_do_not_count():
    roster = Roster()
    wide, narrow = validated(roster), validated(roster, max_sources=1)
    for room in "abc":
        wide.reduce(heard(room, 200))
    narrow.reduce(heard("a", 200))
    with pytest.raises(TooManySources):
        narrow.reduce(heard("b", 200))
    assert narrow.keys == [("a",)]
