"""Text tables: both ends of a stream assign the same indexes to the same texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame
from thinwire.wire.stream_state import CAPACITY, LONGEST, TextTable

FORGET = None
MEMBERS = ("off", "on")
texts = st.sampled_from(["off", "on", "a", "b", "", "x" * LONGEST, "x" * (LONGEST + 1)]) | st.integers(0, 400).map(str)
scripts = st.lists(texts | st.just(FORGET), max_size=60)


def send(table, text):
    """Return what is sent: an index, or the text."""
    index = table.index_of(text)
    if index is None:
        table.remember(text)
    return text if index is None else index


def receive(table, sent):
    if isinstance(sent, int):
        return table.text(sent)
    table.remember(sent)
    return sent


@given(scripts)
def test_both_ends_have_the_same_table(script):
    sender, receiver = TextTable(MEMBERS), TextTable(MEMBERS)
    for text in script:
        if text is FORGET:
            sender.forget()
            receiver.forget()
        else:
            assert receive(receiver, send(sender, text)) == text
        assert vars(sender) == vars(receiver)


@given(st.integers(0, 2 * CAPACITY), st.integers(1, 2 * CAPACITY))
def test_the_newest_texts_are_stored_and_the_oldest_are_evicted(first, count):
    table = TextTable(MEMBERS)
    sent = [str(n) for n in range(first, first + count)]
    for text in sent:
        table.remember(text)
    assert [text for text in sent if table.index_of(text) is not None] == sent[-CAPACITY:]
    assert all(table.text(table.index_of(text)) == text for text in (*MEMBERS, *sent[-CAPACITY:]))
    with pytest.raises(CorruptFrame, match="unknown text"):
        table.text(len(MEMBERS) + min(count, CAPACITY))


def test_a_new_text_replaces_the_oldest():
    table = TextTable(MEMBERS)
    for n in range(CAPACITY + 1):
        table.remember(str(n))
    assert table.index_of("0") is None
    assert table.index_of(str(CAPACITY)) == len(MEMBERS)
    table.forget()
    assert table.index_of("1") is None
    assert table.index_of("on") == 1


def test_a_long_text_is_sent_each_time():
    table = TextTable()
    table.remember("x" * (LONGEST + 1))
    assert table.index_of("x" * (LONGEST + 1)) is None
    table.remember("x" * LONGEST)
    assert table.index_of("x" * LONGEST) == 0
