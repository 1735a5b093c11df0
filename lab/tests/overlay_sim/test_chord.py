"""Chord: owners, paths, and messages to many nodes exactly once, on rings small enough to check by hand."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ring_multicast import multicast

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Ring, hops, key_of, routes

BITS = 8
rings = st.sets(st.integers(0, (1 << BITS) - 1), min_size=1, max_size=60).map(lambda ids: Ring(ids, BITS))
crowded = st.integers(0, 200).flatmap(
    lambda low: st.sets(st.integers(low, low + 55), min_size=2).map(lambda ids: Ring(ids, BITS))
)
"""all nodes on a short arc: nearly all fingers are the same, and most of the circle wraps around to the first"""


def by_hand(ring: Ring, key: int) -> int:
    after = [n for n, at in enumerate(ring.ids) if at >= key % ring.keys]
    return after[0] if after else 0


def processed(messages) -> Counter[int]:
    return Counter(m.receiver for m in messages if m.processes)


def hangs_together(messages, start: int) -> bool:
    """Every message comes from a node that was reached one hop earlier; one that hands on may be an owner later."""
    reached = {(start, 0)}
    for m in sorted(messages, key=lambda m: m.hops):
        if m.sender is not None and (m.sender, m.hops - 1) not in reached:
            return False
        reached.add((m.receiver, m.hops))
    return True


@given(rings, st.integers(0, 1000))
def test_a_key_belongs_to_the_next_node(ring, key):
    assert ring.successor(key) == by_hand(ring, key)
    assert ring.successors(np.array([key]))[0] == by_hand(ring, key)


@given(rings)
def test_fingers_are_the_distinct_successors_of_doubling_distances(ring):
    for node, at in enumerate(ring.ids.tolist()):
        every = [by_hand(ring, at + (1 << i)) for i in range(BITS)]
        assert ring.fingers(node) == [f for f in dict.fromkeys(every) if f != node]


@given(st.one_of(rings, crowded), st.data())
def test_paths_end_at_the_owner_and_are_short(ring, data):
    start, key = data.draw(st.integers(0, len(ring) - 1)), data.draw(st.integers(0, ring.keys - 1))
    way = [start, *routes(ring, [start], [ring.successor(key)]).nodes.tolist()]
    assert way[-1] == by_hand(ring, key)
    assert len(way) == len(set(way))
    assert len(way) - 1 == hops(ring, start, way[-1])[0] <= BITS
    for a, b in pairwise(way):
        assert b in ring.fingers(a)


@given(st.one_of(rings, crowded), st.data())
def test_multicast_reaches_each_destination_once(ring, data):
    nodes = st.integers(0, len(ring) - 1)
    start, wanted = data.draw(nodes), data.draw(st.sets(nodes))
    sent = multicast(ring, start, wanted)
    assert processed(sent) == Counter(wanted)
    assert max(Counter(m.receiver for m in sent).values()) == 1
    assert max(m.hops for m in sent) <= BITS
    assert hangs_together(sent, start)


@given(st.one_of(rings, crowded), st.data())
def test_a_multicast_uses_the_nodes_on_the_greedy_paths(ring, data):
    nodes = st.integers(0, len(ring) - 1)
    start, wanted = data.draw(nodes), data.draw(st.sets(nodes))
    union = set(routes(ring, [start], sorted(wanted)).nodes.tolist())
    assert {m.receiver for m in multicast(ring, start, wanted)} - {start} == union
    assert len(multicast(ring, start, wanted)) - 1 == len(union)


def test_path_lengths_grow_with_the_logarithm_of_the_ring():
    rng = np.random.default_rng(1)
    means = []
    for nodes in (100, 10_000):
        ring = Ring.random(nodes, seed=1)
        means.append(hops(ring, rng.integers(0, nodes, 500), rng.integers(0, nodes, 500)).mean())
        assert means[-1] == pytest.approx(0.5 * np.log2(nodes), rel=0.15)
    assert means[1] < 2.3 * means[0]


def test_names_are_spread_over_the_circle():
    keys = [key_of(f"source/{n}") for n in range(1000)]
    assert len(set(keys)) == 1000
    assert 0.4 < np.mean(keys) / 2**32 < 0.6


@pytest.mark.parametrize(
    ("ids", "bits", "field"), [([], 8, "ids"), ([-1], 8, "ids"), ([256], 8, "ids"), ([1], 0, "bits"), ([1], 63, "bits")]
)
def test_invalid_rings_are_rejected(ids, bits, field):
    with pytest.raises(ConfigError, match=field):
        Ring(ids, bits)


def test_missing_nodes_have_no_paths():
    ring = Ring([1, 2], BITS)
    with pytest.raises(ConfigError, match="unknown node"):
        hops(ring, 0, 2)
    with pytest.raises(ConfigError, match="unknown node"):
        routes(ring, [-1], [0])


@pytest.mark.parametrize("nodes", [0, 129])
def test_too_many_nodes_for_the_circle_are_rejected(nodes):
    with pytest.raises(ConfigError, match="nodes"):
        Ring.random(nodes, seed=1, bits=8)
