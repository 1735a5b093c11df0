"""Counting gives the same as delivering and counting afterwards, for any split of a stream; steps are exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import DemandError, NotFinite
from thinwire_lab.overlay_sim.filters.greedy_filter import ThresholdCounts, greedy
from thinwire_lab.overlay_sim.filters.thresholds import nearest_ticks, ranged, ticks_of


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=80), st.sets(st.integers(0, 20)), st.data())
def test_counts_are_those_of_the_deliveries(drawn, thresholds, data):
    values = np.array(drawn)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(drawn)), max_size=4)))
    tally = ThresholdCounts(thresholds)
    for piece in np.split(values, cuts):
        tally.take(piece)
    assert tally.events == len(drawn)
    for at, c in enumerate(sorted(thresholds)):
        indexes = greedy(values, c)
        held = values[indexes[np.searchsorted(indexes, np.arange(len(drawn)), side="right") - 1]]
        assert tally.delivered[at] == indexes.size
        assert tally.gaps[at] == np.abs(values - held).max() <= c
        assert tally.silences[at] == np.diff([*indexes, len(drawn)]).max() - 1


def test_thresholds_are_whole_numbers_of_steps():
    assert ticks_of([0.1, 0.3, "2"], step=0.1) == [1, 3, 20]
    assert ranged("0.01..0.05, 1", step=0.01) == [1, 2, 3, 4, 5, 100]
    assert nearest_ticks(np.array([10.07, -0.3, 0.0]), 0.01).tolist() == [1007, -30, 0]


BAD = {
    "below the step": (lambda: ticks_of([0.05], 0.1), "step=0.1"),
    "not a number": (lambda: ticks_of([float("nan")], 1), "field='threshold'"),
    "infinite": (lambda: ticks_of([float("inf")], 1), "field='threshold'"),
    "negative": (lambda: ticks_of([-1], 1), "value=-1"),
    "no text": (lambda: ranged("many", 1), "value='many'"),
    "nothing": (lambda: ranged(" , ", 1), "field='thresholds'"),
    "downwards": (lambda: ranged("5..1", 1), "value='5..1'"),
    "too many": (lambda: ranged("1..99999999", 1), "limit=16777216"),
    "no step": (lambda: ticks_of([1], 0), "field='step'"),
    "bad step": (lambda: nearest_ticks(np.array([1.0]), float("nan")), "field='step'"),
    "too large": (lambda: nearest_ticks(np.array([1e30]), 1), "field='values'"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_invalid_steps_and_thresholds_are_reported(name):
    call, message = BAD[name]
    with pytest.raises(DemandError) as raised:
        call()
    assert message in str(raised.value)


def test_invalid_values_are_rejected():
    with pytest.raises(NotFinite):
        nearest_ticks(np.array([1.0, np.nan]), 0.5)
