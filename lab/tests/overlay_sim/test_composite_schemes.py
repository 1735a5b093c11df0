"""Chaining, fanning, hybrid, watched and carried conjunctions: the same deliveries, and the messages of each."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.filters.conjunction_costs import (
    CARRIED,
    CHAINING,
    FANNING,
    HYBRID,
    SCHEMES,
    WATCHED,
    Conjunctions,
    composite_costs,
    conjunction_costs,
    draw,
    rank_predicates,
    walks,
)
from thinwire_lab.overlay_sim.filters.filter_kernels import STATIC_OWNER


def deliveries(rows, subscribed):
    """The number of ticks at which all predicates of a conjunction are outside, by definition."""
    count = 0
    for sources, thresholds in zip(subscribed.sources, subscribed.thresholds, strict=True):
        references = rows[0][sources]
        for values in rows[1:]:
            if (abs(values[sources] - references) > thresholds).all():
                references, count = values[sources], count + 1
    return count


def scalar_counts(rows, subscribed, scheme):
    """Return the messages of the nodes, one conjunction at a time."""
    counts = Counter()
    sources, thresholds = subscribed.sources.tolist(), subscribed.thresholds.tolist()
    references = rows[0][subscribed.sources]
    owners = [0] * len(subscribed)
    for values in rows[1:]:
        requested = set()
        for n, owner in enumerate(owners):
            outside = [abs(values[s] - references[n][k]) > thresholds[n][k] for k, s in enumerate(sources[n])]
            if not outside[owner]:
                continue
            others = [k for k in range(subscribed.dimension) if k != owner]
            first = (subscribed.strengths[n][1:] > scheme.theta).sum() if scheme.mode == STATIC_OWNER else len(others)
            rounds = [[k] for k in others[:first]] + [others[first:]] * bool(others[first:])
            inside = None
            for group in rounds:
                if scheme is CARRIED:
                    counts["passes"] += 1
                else:
                    pairs = {(sources[n][owner], sources[n][k]) for k in group}
                    counts["requests"] += len(group)
                    counts["distinct_requests"] += len(pairs - requested)
                    requested |= pairs
                inside = next((k for k in group if not outside[k]), None)
                if inside is not None:
                    break
            if inside is None:
                references[n] = values[sources[n]]
                owners[n] = others[-1] if scheme is CARRIED and others else owner
            elif scheme.mode != STATIC_OWNER:
                owners[n] = inside
                counts["moves"] += scheme is WATCHED
    return counts


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(sorted(SCHEMES)))
def test_the_kernel_delivers_by_definition_and_counts_the_messages_of_the_nodes(seed, dimension, name):
    rng = np.random.default_rng(seed)
    rows = np.cumsum(rng.integers(-2, 3, size=(30, 4)), axis=0)
    subscribed = draw(rng.random(4) + 0.5, dimension, 6, seed, largest=4)
    found = conjunction_costs(rows, subscribed, SCHEMES[name])
    assert found.fired == deliveries(rows, subscribed)
    counts = scalar_counts(rows, subscribed, SCHEMES[name])
    for counter in ("requests", "distinct_requests", "moves", "passes"):
        assert getattr(found, counter) == counts[counter]


def test_messages_are_counted_as_they_are_sent():
    quiet, apart, all_out = [0, 0, 0], [5, 0, 0], [5, 5, 5]
    subscribed = rank_predicates(np.array([[0, 1, 2]]), np.ones((1, 3), dtype=np.int64), np.ones(3))
    rows = np.array([quiet, quiet, apart, apart, all_out])
    found = {name: conjunction_costs(rows, subscribed, scheme) for name, scheme in SCHEMES.items()}
    assert {name: (c.requests, c.moves, c.passes) for name, c in found.items()} == {
        "chaining": (1 + 1 + 2, 0, 0),
        "fanning": (2 + 2 + 2, 0, 0),
        "hybrid": (2 + 2 + 2, 0, 0),
        "watched": (1 + 0 + 2, 1, 0),
        "carried": (0, 0, 1 + 0 + 2),
    }
    assert found["watched"].messages == 7


def test_equal_requests_of_one_node_in_one_tick_are_one_distinct_request():
    twice = Conjunctions(np.array([[0, 1], [0, 1]]), np.ones((2, 2), dtype=np.int64), np.full((2, 2), 2.0))
    rows = np.array([[0, 0], [5, 5]])
    found = conjunction_costs(rows, twice, CHAINING)
    assert (found.requests, found.distinct_requests, found.distinct_messages) == (2, 1, 2)
    assert conjunction_costs(rows, twice, CHAINING, nodes=2).distinct_requests == 2


def test_a_chain_waits_for_one_after_the_other_and_a_fan_for_the_slowest():
    rows = np.array([[0, 0, 0], [9, 9, 9]], dtype=np.int64)
    subscribed = rank_predicates(np.array([[0, 1, 2]]), np.array([[3, 2, 1]]), np.ones(3))
    hops = np.array([[0, 4, 6], [4, 0, 3], [6, 3, 0]])
    found = {name: conjunction_costs(rows, subscribed, scheme, hops).decision_hops for name, scheme in SCHEMES.items()}
    assert found == {"chaining": 5 + 7, "fanning": 7, "hybrid": 5 + 7, "watched": 5 + 7, "carried": 4 + 3}


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


def test_invalid_sizes_are_rejected():
    with pytest.raises(ConfigError, match="dimension"):
        draw(np.ones(3), 4, 10, seed=1)
    with pytest.raises(ConfigError, match="hops"):
        conjunction_costs(walks(np.ones(3), 5, 1), draw(np.ones(3), 2, 2, seed=1), hops=np.ones((2, 2), dtype=np.int64))
