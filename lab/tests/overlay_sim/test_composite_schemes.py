"""Chaining, fanning, hybrid, watched, carried: the same deliveries, and what each of them says."""

import numpy as np
import pytest
from composite_reference import QUANTITIES, Reference, condition_of, formulas, named, streams
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire.filters.composite.feed_sequencer import Order
from thinwire_lab.overlay_sim.filters.conjunction_costs import (
    CARRIED,
    CHAINING,
    FANNING,
    HYBRID,
    SCHEMES,
    WATCHED,
    ChangeRate,
    Dissemination,
    composite_costs,
    conjunction_costs,
    draw,
    ranked,
    walks,
)

A, B = 0, 1
START = dict.fromkeys(QUANTITIES, 0)
FULL = st.lists(st.lists(st.integers(-5, 5), min_size=4, max_size=4), max_size=12)


def values(step):
    return {QUANTITIES[q]: value for q, value in step.items()}


def run(formula, scheme, ticks, rates=None):
    network = Dissemination([condition_of(formula)], scheme, START, rates or {})
    told = [named(network.tick(values(tick), Order(n))[0]) for n, tick in enumerate(ticks)]
    return told, network.traffic


def expected(formula, ticks):
    reference = Reference(formula, dict.fromkeys(range(4), 0))
    return [reference.step(tick) for tick in ticks]


@settings(max_examples=60)
@given(formulas(), FULL, st.sampled_from(sorted(SCHEMES)), st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_every_scheme_delivers_what_the_reference_does_at_every_tick(formula, rows, name, rates):
    ticks = [dict(enumerate(row)) for row in rows]
    speed = dict(zip(QUANTITIES, rates, strict=True))
    assert run(formula, SCHEMES[name], ticks, speed)[0] == expected(formula, ticks)


@settings(max_examples=60)
@given(formulas(), streams(), st.sampled_from([WATCHED, CARRIED]))
def test_an_owner_that_is_inside_is_exact_with_events_one_by_one_too(formula, stream, scheme):
    steps = [dict([change]) for change in stream]
    assert run(formula, scheme, steps)[0] == expected(formula, steps)


@pytest.mark.parametrize("scheme", [CHAINING, FANNING, HYBRID], ids=lambda scheme: scheme.name)
def test_a_static_owner_misses_what_others_do_between_its_own_events(scheme):
    formula, steps = ("and", (A, 1), (B, 1)), [{A: -2}, {B: -2}]
    assert expected(formula, steps) == [{}, {A: -2, B: -2}]
    assert run(formula, scheme, steps)[0] == [{}, {}]


def test_a_request_that_returns_the_newest_value_delivers_something_else():
    """Unversioned: the reply to the request of one tick already has the value of the next."""
    formula = ("and", (A, 1), (B, 1))
    ticks = [{A: 2, B: 2}, {A: 2, B: 0}]
    unversioned = [{A: tick[A], B: after[B]} for tick, after in zip(ticks, [*ticks[1:], ticks[-1]], strict=True)]
    assert run(formula, CHAINING, unversioned)[0] != run(formula, CHAINING, ticks)[0] == expected(formula, ticks)


def test_messages_are_counted_as_they_are_sent():
    formula = ("and", (0, 1), (1, 1), (2, 1))
    quiet, apart, all_out = {0: 0, 1: 0, 2: 0}, {0: 5, 1: 0, 2: 0}, {0: 5, 1: 5, 2: 5}
    said = {name: run(formula, scheme, [quiet, apart, apart, all_out])[1] for name, scheme in SCHEMES.items()}
    assert {name: (t.requests, t.moves, t.passes) for name, t in said.items()} == {
        "chaining": (1 + 1 + 2, 0, 0),
        "fanning": (2 + 2 + 2, 0, 0),
        "hybrid": (2 + 2 + 2, 0, 0),
        "watched": (1 + 0 + 2, 1, 0),
        "carried": (0, 0, 1 + 0 + 2),
    }
    assert said["watched"].messages == 7


def test_requests_of_one_node_are_merged_and_doubles_are_suppressed():
    conditions = [condition_of(("and", (0, 1), (1, c))) for c in (1, 1)]
    network = Dissemination(conditions, CHAINING, START)
    network.tick(values({0: 5, 1: 5}), Order(1))
    assert (network.traffic.requests, network.traffic.merged) == (2, 1)
    alternatives = Dissemination([condition_of(("and", (0, 1), ("or", (1, 1), (2, 1))))], CHAINING, START)
    alternatives.tick(values({0: 5, 1: 5, 2: 5}), Order(1))
    assert alternatives.traffic.duplicates == 1


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(sorted(SCHEMES)))
def test_the_kernel_counts_the_messages_of_the_nodes(seed, dimension, name):
    dice = np.random.default_rng(seed)
    steps = np.cumsum(dice.integers(-2, 3, size=(30, 4)), axis=0)
    steps -= steps[0]
    rates = dice.random(4) + 0.5  # no two predicates are equally strong
    subscribed = draw(rates, dimension, 6, seed, most=4)
    found = conjunction_costs(steps, subscribed, SCHEMES[name])
    conditions = [
        condition_of(("and", *((int(s), int(c)) for s, c in zip(sources, thresholds, strict=True))))
        for sources, thresholds in zip(subscribed.sources, subscribed.thresholds, strict=True)
    ]
    network = Dissemination(conditions, SCHEMES[name], START, dict(zip(QUANTITIES, rates, strict=True)))
    told = [network.tick(values(dict(enumerate(row.tolist()))), Order(n)) for n, row in enumerate(steps[1:])]
    said = network.traffic
    assert found.fired == sum(delivery is not None for tick in told for delivery in tick)
    counts = (said.requests, said.merged, said.moves, said.passes)
    assert (found.requests, found.merged, found.moves, found.passes) == counts


def test_a_chain_waits_for_one_after_the_other_and_a_fan_for_the_slowest():
    steps = np.array([[0, 0, 0], [9, 9, 9]], dtype=np.int64)
    subscribed = ranked(np.array([[0, 1, 2]]), np.array([[3, 2, 1]]), np.ones(3))
    hops = np.array([[0, 4, 6], [4, 0, 3], [6, 3, 0]])
    waited = {name: conjunction_costs(steps, subscribed, scheme, hops).waited for name, scheme in SCHEMES.items()}
    assert waited == {"chaining": 5 + 7, "fanning": 7, "hybrid": 5 + 7, "watched": 5 + 7, "carried": 4 + 3}


def test_the_watched_predicate_needs_fewer_messages_than_a_chain():
    found = {
        (dimension, scheme.name): composite_costs(dimension, scheme, subscriptions=300, ticks=600).messages
        for dimension in (2, 5)
        for scheme in (CHAINING, FANNING, WATCHED, CARRIED)
    }
    assert found[2, "chaining"] >= 1.7 * found[2, "watched"]
    assert found[5, "chaining"] >= 4 * found[5, "watched"]
    assert found[5, "fanning"] > found[5, "chaining"]
    assert all(found[dimension, "watched"] > found[dimension, "carried"] for dimension in (2, 5))


def test_hybrid_lies_between_chaining_and_fanning_wherever_theta_is():
    found = [composite_costs(4, scheme, subscriptions=200, ticks=400) for scheme in (CHAINING, HYBRID, FANNING)]
    assert found[0].messages <= found[1].messages <= found[2].messages
    assert found[0].latency >= found[1].latency >= found[2].latency


def test_bad_sizes_are_refused():
    with pytest.raises(ConfigError, match="dimension"):
        draw(np.ones(3), 4, 10, seed=1)
    with pytest.raises(ConfigError, match="hops"):
        conjunction_costs(walks(np.ones(3), 5, 1), draw(np.ones(3), 2, 2, seed=1), hops=np.ones((2, 2), dtype=np.int64))


def test_a_rate_follows_its_source():
    rate = ChangeRate(memory=4)
    for value in range(0, 300, 3):
        rate.observe(value)
    assert rate.rate == pytest.approx(3)
    for value in range(300, 400):
        rate.observe(value)
    assert rate.rate == pytest.approx(1, abs=0.01)
    assert rate.strength(5) == pytest.approx(5, abs=0.1)
    assert ChangeRate().strength(1) == float("inf")
