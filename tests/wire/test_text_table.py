"""Text tables: two ends that see the same texts in the same order have the same places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame
from thinwire.wire.stream_state import CAPACITY, LONGEST, TextTable

FORGET = None
MEMBERS = ("off", "on")
words = st.sampled_from(["off", "on", "a", "b", "", "x" * LONGEST, "x" * (LONGEST + 1)]) | st.integers(0, 400).map(str)
scripts = st.lists(words | st.just(FORGET), max_size=60)


def tell(table, text):
    """What travels: a place, or the text."""
    place = table.index_of(text)
    if place is None:
        table.remember(text)
    return text if place is None else place


def hear(table, told):
    if isinstance(told, int):
        return table.text(told)
    table.remember(told)
    return told


@given(scripts)
def test_both_ends_stay_in_lock_step(script):
    teller, hearer = TextTable(MEMBERS), TextTable(MEMBERS)
    for text in script:
        if text is FORGET:
            teller.forget()
            hearer.forget()
        else:
            assert hear(hearer, tell(teller, text)) == text
        assert vars(teller) == vars(hearer)


@given(st.integers(0, 2 * CAPACITY), st.integers(1, 2 * CAPACITY))
def test_the_newest_texts_are_there_and_the_oldest_are_gone(first, count):
    table = TextTable(MEMBERS)
    told = [str(n) for n in range(first, first + count)]
    for text in told:
        table.remember(text)
    assert [text for text in told if table.index_of(text) is not None] == told[-CAPACITY:]
    assert all(table.text(table.index_of(text)) == text for text in (*MEMBERS, *told[-CAPACITY:]))
    with pytest.raises(CorruptFrame, match="unknown text"):
        table.text(len(MEMBERS) + min(count, CAPACITY))


def test_the_newcomer_takes_the_place_of_the_oldest():
    table = TextTable(MEMBERS)
    for n in range(CAPACITY + 1):
        table.remember(str(n))
    assert table.index_of("0") is None
    assert table.index_of(str(CAPACITY)) == len(MEMBERS)
    table.forget()
    assert table.index_of("1") is None
    assert table.index_of("on") == 1


def test_a_long_text_is_told_each_time():
    table = TextTable()
    table.remember("x" * (LONGEST + 1))
    assert table.index_of("x" * (LONGEST + 1)) is None
    table.remember("x" * LONGEST)
    assert table.index_of("x" * LONGEST) == 0
