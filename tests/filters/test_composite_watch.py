"""A watch against the brute-force reference semantics, and the counterexamples that decided them."""

from itertools import product

import pytest
from composite_reference import QUANTITIES, Reference, condition_of, formulas, named, streams, truth
from hypothesis import given
from hypothesis import strategies as st

from thinwire.filters.composite.condition import Condition, Predicate, Radius
from thinwire.filters.composite.expression import And, Or
from thinwire.filters.composite.feed_sequencer import Order
from thinwire.filters.composite.watch_evaluator import WatchEvaluator

A, B, C, D = 0, 1, 2, 3
START = {A: 0, B: 0, C: 0}


def held(values):
    return {QUANTITIES[q]: value for q, value in values.items()}


def steps(watch, changes):
    deliveries = (watch.offer_all(held(step), Order(n)) for n, step in enumerate(changes))
    return [named(delivery) for delivery in deliveries]


@given(formulas(), streams())
def test_a_watch_delivers_what_the_reference_does(formula, stream):
    watch, reference = WatchEvaluator(condition_of(formula)), Reference(formula)
    assert steps(watch, [dict([change]) for change in stream]) == [reference.step(dict([c])) for c in stream]


@given(formulas(), st.lists(st.dictionaries(st.integers(0, 3), st.integers(-5, 5), min_size=1), max_size=15))
def test_a_watch_of_ticks_delivers_what_the_reference_does(formula, ticks):
    watch, reference = WatchEvaluator(condition_of(formula)), Reference(formula)
    assert steps(watch, ticks) == [reference.step(tick) for tick in ticks]


@given(formulas(), streams())
def test_after_every_event_the_condition_is_false_and_only_deliveries_change_held_values(formula, stream):
    watch = WatchEvaluator(condition_of(formula))
    for n, (quantity, value) in enumerate(stream):
        before = watch.held
        delivery = watch.offer(QUANTITIES[quantity], value, Order(n))
        assert {q: v for q, v in watch.held.items() if before.get(q) != v or q not in before}.keys() <= (
            delivery.values.keys() if delivery else set()
        )
        assert all(watch.latest[q] == v for q, v in watch.held.items() if delivery and q in delivery.values)
        conjuncts = watch.condition.conjuncts
        assert not any(all(watch.is_outside(index, radius) for index, radius in conjunct) for conjunct in conjuncts)


@given(streams(), st.tuples(*[st.integers(1, 3)] * 4))
def test_alternatives_of_conjunctions_and_conjunctions_of_alternatives_agree(stream, c):
    (a, b, x, y) = zip((A, B, C, D), c, strict=True)
    every = ("and", ("or", a, b), ("or", x, y))
    any_ = ("or", ("and", a, x), ("and", a, y), ("and", b, x), ("and", b, y))
    changes = [dict([change]) for change in stream]
    reference = Reference(every)
    assert condition_of(every) == condition_of(any_)
    assert steps(WatchEvaluator(condition_of(any_)), changes) == [reference.step(change) for change in changes]


def test_the_condition_is_evaluated_after_events_of_every_quantity():
    """Evaluation only after the events of one quantity would miss the second delivery."""
    watch = WatchEvaluator(condition_of(("and", (A, 1), (B, 1))), held({A: 0, B: 0}))
    assert steps(watch, [{A: -2}, {B: -2}]) == [{}, {A: -2, B: -2}]


def test_an_alternative_does_not_repeat_delivered_values():
    """With separate state, A and B would fire on a=2, which was delivered for A and C."""
    watch = WatchEvaluator(condition_of(("and", (A, 1), ("or", (B, 1), (C, 1)))), held(START))
    assert steps(watch, [{A: 2, B: 0, C: 2}, {A: 2, B: 2, C: 0}]) == [{A: 2, C: 2}, {}]


def test_an_alternative_compares_with_values_that_another_delivered():
    """With separate state, A and C would still hold a=0 and not fire."""
    watch = WatchEvaluator(condition_of(("and", (A, 1), ("or", (B, 1), (C, 1)))), held(START))
    assert steps(watch, [{A: 2, B: 2, C: 0}, {A: 0, B: 2, C: 2}]) == [{A: 2, B: 2}, {A: 0, C: 2}]


def test_a_quantity_is_unbounded_while_the_other_one_is_quiet():
    watch = WatchEvaluator(condition_of(("and", (A, 1), (B, 1))), held({A: 0, B: 0}))
    assert steps(watch, [{A: value} for value in (5, 500, 50_000)]) == [{}, {}, {}]


@given(formulas(quantities=2, most=2), formulas(quantities=2, most=2))
def test_equivalent_formulas_are_equal_conditions(some, other):
    assignments = [dict(enumerate(levels)) for levels in product(range(3), repeat=2)]
    same = all(truth(some, levels) == truth(other, levels) for levels in assignments)
    assert (condition_of(some) == condition_of(other)) == same


def test_within_an_alternative_the_larger_threshold_rules_and_between_them_the_smaller():
    a = QUANTITIES[A]
    small, large = Predicate(a, Radius(1)), Predicate(a, Radius(5))
    assert Condition.of(And((small, large))) == Condition.of(large)
    assert Condition.of(Or((small, large))) == Condition.of(small)
    assert Condition.of(Or((small, And((large, Predicate(QUANTITIES[B], Radius(1))))))) == Condition.of(small)


def test_quantities_outside_the_condition_are_ignored():
    watch = WatchEvaluator(condition_of((A, 1)))
    assert watch.offer(QUANTITIES[B], 7, Order(1)) is None
    assert watch.latest == {}


@pytest.mark.parametrize("value", [1.5, float("nan"), "3"])
def test_a_value_is_a_whole_number_of_ticks(value):
    with pytest.raises(TypeError):
        WatchEvaluator(condition_of((A, 1))).offer(QUANTITIES[A], value, Order(1))
