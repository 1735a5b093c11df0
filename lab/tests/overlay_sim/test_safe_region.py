"""The safe-region tree under delays delivers what OnlineGreedy does; without its marks it does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy
from thinwire_lab.overlay_sim.safe_region.safe_region_tree import Node, Tree

thresholds = st.sets(st.integers(0, 40), min_size=1, max_size=20)
walks = st.lists(st.integers(-60, 60), min_size=1, max_size=25)
pauses = st.lists(st.integers(0, 6), min_size=25, max_size=25)


class Forgetful(Node):
    """Trusts whatever advert it has heard last."""

    def may_affect(self, child, value):
        return not child.safe.contains(value)

    def advert(self, child, advert):
        child.dirty, child.forwarded = True, advert.number
        return super().advert(child, advert)


def played(tree: Tree, values, gaps) -> dict[int, list[tuple[int, int]]]:
    for value, gap in zip(values, gaps, strict=False):
        tree.publish(value)
        tree.network.run(gap)
    tree.wait_until_idle()
    return tree.delivered


def expected(values, threshold, start):
    return [(int(n) + 1, values[n]) for n in greedy(np.array(values), threshold, start)]


@given(thresholds, walks, pauses, st.integers(2, 4), st.integers(1, 3), st.integers(0, 2**32))
def test_every_threshold_gets_what_online_greedy_delivers(wanted, values, gaps, fan_out, leaf_size, seed):
    found = played(Tree(wanted, 0, seed, fan_out, leaf_size), values, gaps)
    assert found == {c: expected(values, c, 0) for c in wanted}


def missed(seed: int, node: type[Node]) -> bool:
    values = [-13, 6]
    found = played(Tree([8, 13, 14], 0, seed, fan_out=2, leaf_size=1, max_delay=4, node=node), values, [1, 0])
    return found[8] != expected(values, 8, 0)


def test_without_the_mark_a_value_slips_through():
    assert any(missed(seed, Forgetful) for seed in range(20))
    assert not any(missed(seed, Node) for seed in range(20))


@given(thresholds, walks, pauses, st.data())
def test_joining_and_leaving_does_not_disturb_other_nodes(wanted, values, gaps, data):
    tree = Tree(wanted, 0, data.draw(st.integers(0, 2**32)), 2, 2)
    held, found, number = dict.fromkeys(wanted, 0), {}, 0

    def deliver(threshold, value):
        held[threshold] = value
        found.setdefault(threshold, []).append((number, value))

    for value, gap in zip(values, gaps, strict=False):
        number += 1
        tree.publish(value)
        for c in [c for c, z in held.items() if not z - c <= value <= z + c]:
            deliver(c, value)
        tree.network.run(gap)
        change = data.draw(st.one_of(st.none(), st.integers(0, 40)))
        if change is not None and change in held and data.draw(st.booleans()):
            tree.leave(change)
            del held[change]
        elif change is not None:
            number += 1
            tree.join(change)
            deliver(change, held.get(change, value))
    tree.wait_until_idle()
    assert {c: of for c, of in tree.delivered.items() if of} == found


def test_a_quiet_stream_costs_nothing():
    tree = Tree(range(5, 60), 0, seed=1)
    played(tree, [1, 2, -5, 4], [0] * 4)
    assert not tree.network.sent


def test_a_value_is_sent_only_to_nodes_that_fire():
    tree = Tree(range(1, 64), 0, seed=1)
    played(tree, [2], [0])
    assert tree.network.sent == {"Event": 3, "Advert": 3}


def test_a_tree_needs_thresholds():
    with pytest.raises(ConfigError, match="threshold"):
        Tree([], 0, seed=1)
