"""Bytes of a topic with dictionaries: the formulas of section 5.2.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.dictionaries.topology import ONE_TO_ONE, Topology
from thinwire_lab.reproduce.dictionaries.byte_account import BATCHES, TOPOLOGIES, Account

counts = st.integers(0, 10**6)


@given(counts, counts, st.lists(counts, max_size=5), st.integers(1, 10**4), st.integers(1, 100))
def test_all_bytes_are_counted_for_every_receiver(
    plain: int, packed: int, dictionaries: list[int], publishers: int, subscribers: int
) -> None:
    account, topology = Account(), Topology(publishers, subscribers)
    account.add_messages(7, plain, packed)
    for size in dictionaries:
        account.add_dictionary(size)
    assert account.plain_bytes_sent(topology) == plain * (1 + subscribers)
    assert account.packed_bytes_sent(topology) == (packed + 7) * (1 + subscribers) + sum(dictionaries) * (
        publishers + subscribers
    )


def test_reduction_is_in_per_cent_and_may_be_negative() -> None:
    account = Account()
    account.add_messages(100, plain=10_000, packed=1_900)
    assert account.reduction(ONE_TO_ONE) == pytest.approx(80.0)
    account.add_dictionary(1_000)
    assert account.reduction(ONE_TO_ONE) == pytest.approx(70.0)
    assert account.reduction(Topology(10_000)) < -4_000


def test_nothing_sent_saves_nothing() -> None:
    assert [Account().reduction(topology) for topology in TOPOLOGIES] == [0.0] * 3


def test_the_batches_of_the_thesis() -> None:
    assert BATCHES == (1, 2, 3, 5, 8, 13, 21, 34, 55)
