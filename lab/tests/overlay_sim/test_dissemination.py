"""Costs on Chord: counted by hand on small rings, and in the theoretical order on larger ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_multicast import multicast

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Ring
from thinwire_lab.overlay_sim.dissemination.cost_model import Model
from thinwire_lab.overlay_sim.dissemination.overlay_simulation import ChurnCosts, churn, simulate, sites
from thinwire_lab.overlay_sim.dissemination.schemes import SCHEMES
from thinwire_lab.overlay_sim.dissemination.site_traffic import (
    SourceDemands,
    SourceSite,
    concatenate,
    count_messages,
    delivery_trees,
    group_messages,
    repeated_multicasts,
)
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy

EXACT = sorted(set(SCHEMES) - {"MFD"})


def stream(seed: int = 1, events: int = 300) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).integers(-3, 4, events))


@pytest.fixture(scope="module")
def site() -> SourceSite:
    return sites(Ring.random(200, seed=3), ["AAA"], 500, seed=3)[0]


@pytest.fixture(scope="module")
def everything():
    return simulate(200, {"AAA": stream()}, 600)


def by_hand(site: SourceSite, senders: list[int], receivers: list[list[int]]) -> int:
    """Messages of multicasts between hosts, sent by the algorithm itself."""
    hosts = [site.publisher, *site.processors.tolist()]
    pairs = zip(senders, receivers, strict=True)
    return sum(len(multicast(site.ring, hosts[s], {hosts[r + 1] for r in to})) - 1 for s, to in pairs)


def test_a_multicast_costs_what_the_algorithm_sends(site):
    loads = np.zeros(len(site.ring), dtype=np.int64)
    senders, receivers = [0, 4, 0], [[0, 5, 9], [4, 6], [31]]
    multicasts = repeated_multicasts([(s, np.array(to), 2) for s, to in zip(senders, receivers, strict=True)])
    assert count_messages(site.routes, multicasts, loads) == 2 * by_hand(site, senders, receivers) == loads.sum()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=20))
def test_messages_are_gathered_into_multicasts(pairs):
    order = sorted(pairs)
    events, receivers = (np.array([p[k] for p in order], dtype=np.int64) for k in (0, 1))
    found = concatenate([group_messages(events, events + 1, receivers), group_messages(events, events, receivers)])
    half = len(found.senders) // 2
    groups = [found.receivers[a:b].tolist() for a, b in zip(found.starts, found.starts[1:], strict=False)]
    wanted = {event: sorted({r for e, r in pairs if e == event}) for event, _ in order}
    assert groups == 2 * list(wanted.values())
    assert found.senders.tolist() == [e + 1 for e in wanted] + list(wanted)
    assert half == len(wanted)


def test_single_level_filters_send_everything_everywhere(site):
    values = stream()
    traffic = SCHEMES["SF"](site, values)
    loads = np.zeros(len(site.ring), dtype=np.int64)
    every = by_hand(site, [0], [list(range(len(site.processors)))])
    assert count_messages(site.routes, traffic.multicasts, loads) == every * (len(values) - 1)


def test_the_index_notifies_only_delivering_nodes(site):
    values = stream()
    fires = {int(c): set(greedy(values[1:], int(c), int(values[0])).tolist()) for c in site.thresholds}
    wanted = 0
    for event in range(len(values) - 1):
        hosts = {int(site.processor_of[rank]) for rank, at in enumerate(fires.values()) if event in at}
        wanted += by_hand(site, [0], [sorted(hosts)]) if hosts else 0
    traffic = SCHEMES["SRI"](site, values)
    assert count_messages(site.routes, traffic.multicasts, np.zeros(len(site.ring), dtype=np.int64)) == wanted
    assert traffic.fired.tolist() == [len(fires[int(c)]) for c in site.thresholds]


def test_a_safe_region_tree_visits_firing_nodes_and_receives_replies(site):
    traffic = SCHEMES["SRT"](site, np.array([0, 2]))
    fired = int(np.count_nonzero(site.thresholds < 2))
    assert fired == 1
    # Two of the three nodes above the first processor are on its host; the root receives from the third.
    assert traffic.replies.tolist() == [1, *[0] * len(site.processors)]
    assert traffic.paths[0] == (0, 0, 0)
    assert traffic.paths[-1] == (16, 28, 31)


def test_if_everything_fires_the_index_costs_as_much_as_sending_everything():
    found = simulate(100, {"AAA": np.arange(50) * 1000}, 600, ["SF", "SRI", "SRT"])
    assert found["SRI"].maintenance == found["SF"].maintenance < found["SRT"].maintenance


def test_exact_schemes_deliver_the_same(everything):
    assert len({everything[name].fired_thresholds for name in EXACT}) == 1
    assert len({everything[name].delivery for name in ("SF", "SRT", "SRI")}) == 1
    assert everything["MCF"].delivery == pytest.approx(everything["SF"].delivery, rel=0.1)
    assert everything["MFD"].fired_thresholds != everything["SF"].fired_thresholds


def test_the_costs_of_schemes_have_the_theoretical_order(everything):
    order = sorted(everything, key=lambda name: everything[name].maintenance)
    assert order[:2] == ["SRI", "SRT"]
    assert order[-1] == "SF"
    assert everything["SRI"].latency == everything["SF"].latency < everything["MFD"].latency
    assert everything["SRI"].maintenance < everything["SF"].maintenance / 8


def test_the_result_contains_the_load(everything):
    for costs in everything.values():
        assert 0 < costs.messages_p99 <= costs.messages_max
        assert 0 < costs.state_p99 <= costs.state_max
    assert everything["SRI"].state_max >= 63


def test_costs_grow_with_the_logarithm_of_the_ring():
    small, large = (simulate(nodes, {"AAA": stream()}, 600, ["SF", "SRI"]) for nodes in (100, 3200))
    for name in ("SF", "SRI"):
        assert small[name].subscription < large[name].subscription < 3 * small[name].subscription
        assert small[name].latency < large[name].latency < 2.5 * small[name].latency


def test_delivery_trees_are_multicasts(site):
    trees = delivery_trees(site, site.processor_of)
    for rank in (0, 20, len(site.thresholds) - 1):
        host = int(site.processors[site.processor_of[rank]])
        nodes = site.demands.nodes[site.demands.thresholds == site.thresholds[rank]].tolist()
        sent = multicast(site.ring, host, nodes)
        assert trees.messages[rank] == len(sent) - 1
        depth = {m.receiver: m.hops for m in sent}
        assert trees.hops[rank] == sum(depth[node] for node in nodes)
        assert trees.subscribers[rank] == len(nodes)


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32))
def test_any_ring_and_thresholds_are_accepted(nodes, subscriptions, largest, seed):
    found = simulate(nodes, {"AAA": stream(1, 30)}, subscriptions, seed=seed, model=Model(largest=largest))
    assert len({found[name].fired_thresholds for name in EXACT}) == 1
    assert found["SRI"].maintenance <= found["SF"].maintenance


def test_the_same_seed_gives_the_same_costs():
    runs = [simulate(150, {"AAA": stream(), "BBB": stream(2)}, 400, seed=7) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_churn_loses_deliveries_and_copies_reduce_the_loss(scheme):
    values = stream(events=120)
    calm = churn(150, values, 400, 0.02, scheme)
    wild = churn(150, values, 400, 0.10, scheme)
    with_copies = churn(150, values, 400, 0.10, scheme, copies=True)
    assert calm.missed < wild.missed
    assert calm.beyond_threshold < wild.beyond_threshold < 0.2
    assert calm.handovers < wild.handovers
    assert with_copies.registrations < wild.registrations
    assert with_copies.unnecessary == 0
    assert (wild.unnecessary == 0) == (scheme == "SRI")


def test_filters_below_others_miss_more():
    missed = {name: churn(150, stream(events=120), 400, 0.10, name).missed for name in ("SRI", "SRT")}
    assert missed["SRI"] < missed["SRT"]


def test_without_churn_nothing_is_missed():
    assert churn(100, stream(events=30), 200, 0.0, "SF") == ChurnCosts()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: simulate(100, {}, 10), "sources"),
        (lambda: simulate(100, {"AAA": np.array([1])}, 10), "two values"),
        (lambda: simulate(100, {"AAA": stream()}, 0), "subscriptions"),
        (lambda: simulate(100, {"AAA": stream()}, 10, ["XYZ"]), "unknown scheme"),
        (lambda: churn(100, stream(), 10, 0.6), "share"),
        (lambda: churn(100, stream(), 10, 0.1, "XYZ"), "unknown scheme"),
        (lambda: Model(fan_out=1), "fan_out"),
        (lambda: SourceDemands(np.array([1]), np.array([-1])), "threshold"),
    ],
)
def test_invalid_runs_are_rejected(call, complaint):
    with pytest.raises(ConfigError, match=complaint):
        call()
