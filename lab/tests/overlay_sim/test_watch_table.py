"""Many watches in one table deliver what each of them would alone, and an event costs what it touches."""

import pytest
from composite_reference import QUANTITIES, condition_of, formulas, streams
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire.filters.composite.condition import Condition, Predicate, Radius
from thinwire.filters.composite.feed_sequencer import Order
from thinwire.filters.composite.watch_evaluator import WatchEvaluator
from thinwire_lab.overlay_sim.filters.watch_table import Regions, WatchTable


@settings(max_examples=40)
@given(st.lists(formulas(), min_size=1, max_size=6), streams(size=20), st.data())
def test_a_table_delivers_what_single_watches_do(some, stream, data):
    """Watches come and go on the way; a table knows the values of what some watch has spoken of."""
    table, watches, latest, spoken = WatchTable(), {}, {}, set()
    for n, (quantity, value) in enumerate(stream):
        for name in data.draw(st.sets(st.integers(0, len(some) - 1), max_size=2)):
            if name in watches:
                table.remove(name)
                del watches[name]
            else:
                watches[name] = watch = WatchEvaluator(condition_of(some[name]))
                spoken.update(watch.condition.quantities)
                assert table.add(name, watch.condition, Order(n)) == watch.offer_all(latest, Order(n))
        if QUANTITIES[quantity] in spoken:
            latest[QUANTITIES[quantity]] = value
        alone = {name: watch.offer(QUANTITIES[quantity], value, Order(n)) for name, watch in watches.items()}
        told = table.offer({QUANTITIES[quantity]: value}, Order(n))
        assert dict(told) == {name: delivery for name, delivery in alone.items() if delivery is not None}
        assert [name for name, _ in told] == [name for name in watches if alone[name] is not None]
        assert all(table.held(name) == watch.held for name, watch in watches.items())
    assert len(table) == len(watches)


@settings(max_examples=40)
@given(st.lists(formulas(), min_size=1, max_size=5), st.lists(st.dictionaries(st.integers(0, 3), st.integers(-5, 5))))
def test_a_table_takes_ticks(some, ticks):
    table = WatchTable()
    watches = [WatchEvaluator(condition_of(formula)) for formula in some]
    for name, watch in enumerate(watches):
        assert table.add(name, watch.condition) is None
    for n, tick in enumerate(ticks):
        values = {QUANTITIES[q]: value for q, value in tick.items()}
        alone = {name: watch.offer_all(values, Order(n)) for name, watch in enumerate(watches)}
        assert dict(table.offer(values, Order(n))) == {name: told for name, told in alone.items() if told is not None}


def test_an_event_costs_the_watches_it_touches():
    """A thousand thresholds; a value leaves those below its distance, and no other is looked at."""
    a, table = QUANTITIES[0], WatchTable()
    for c in range(1, 1001):
        table.add(c, Condition.of(Predicate(a, Radius(c))))
    table.offer({a: 0}, Order(0))
    table.evaluated = 0
    assert [name for name, _ in table.offer({a: 6}, Order(1))] == [1, 2, 3, 4, 5]
    assert table.evaluated == 5
    assert (table.offer({a: 6}, Order(2)), table.evaluated) == ([], 5)


def test_a_conjunction_whose_other_half_is_quiet_is_not_evaluated_again():
    a, b, *_ = QUANTITIES
    table = WatchTable()
    table.add("both", condition_of(("and", (0, 1), (1, 1))))
    table.offer({a: 0, b: 0}, Order(0))
    table.evaluated = 0
    for n in range(100):
        table.offer({a: 10 * n}, Order(n))
    assert table.evaluated <= 1


def test_names_are_taken_once():
    table = WatchTable()
    table.add("a", condition_of((0, 1)))
    with pytest.raises(ConfigError, match="remove it first"):
        table.add("a", condition_of((0, 1)))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9), st.integers(-9, 9)), max_size=40))
def test_regions_lose_exactly_the_intervals_that_do_not_hold_a_value(steps):
    regions, model = Regions(), {}
    for key, one, other in steps:
        interval = min(one, other), max(one, other)
        regions.put(key, interval)
        model[key] = interval
        left = sorted(k for k, (low, high) in model.items() if not low <= one + other <= high)
        assert regions.leave(one + other) == left
        model = {k: interval for k, interval in model.items() if k not in left}
        assert len(regions) == len(model)


def test_removed_interval_ends_do_not_accumulate():
    regions = Regions()
    for n in range(10_000):
        regions.put(0, (-n, n))
    assert len(regions._lows) + len(regions._highs) < 200
