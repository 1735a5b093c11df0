"""Complete placements: latency limits on every host, bounds, splits, explanations, invalid input."""

import pytest
from placement_models import small_model

from thinwire.errors import ConfigError, LatencyLimitUnreachable, NotEnoughHosts
from thinwire.placement import Host, TopicLoad, propose, split, tightened
from thinwire.placement.explanation import explain
from thinwire.placement.feasibility import HostFeasibility
from thinwire.placement.heuristics import fewest
from thinwire.placement.hosts import bucketed
from thinwire_lab.placement.topic_parts import parts_of

HOST = [Host()]


def request(count, rate=10.0, interval=0.02, promise=1.0):
    return [TopicLoad(f"t{n}", rate + n % 7, interval, promise) for n in range(count)]


def test_every_topic_is_placed_within_its_latency_limit():
    topics = request(20)
    plan = propose(topics, HOST, small_model(), 6)
    assert sorted(name for seat in plan.assignments for name in seat.topics) == sorted(topic.name for topic in topics)
    assert all(bound <= 1.0 for seat in plan.assignments for bound in seat.bounds)
    assert all(p90 <= bound for seat in plan.assignments for p90, bound in zip(seat.p90, seat.bounds, strict=True))
    assert plan.lower_bound <= len(plan.assignments) <= plan.lower_bound + 1


def test_latency_limits_may_differ():
    topics = [
        TopicLoad("quick", 5, 0.02, promise=0.06),
        *(TopicLoad(f"slow{n}", 15, 0.04, promise=5.0) for n in range(7)),
    ]
    plan = propose(topics, HOST, small_model(), 6)
    seat = plan.assignment_of("quick")
    assert seat.bounds[seat.topics.index("quick")] <= 0.06


def test_hosts_may_differ():
    hosts = [Host("big", cores=8, count=1), Host("small", cores=2)]
    plan = propose(request(20, rate=20), hosts, small_model(), 6)
    kinds = [seat.kind.name for seat in plan.assignments]
    assert kinds.count("big") == 1
    assert plan.lower_bound <= len(plan.assignments)
    assert all(bound <= 1.0 for seat in plan.assignments for bound in seat.bounds)


def test_few_topics_get_the_minimum_number_of_hosts():
    topics = [TopicLoad(f"t{n}", 8 + 3 * n, 0.03) for n in range(8)]
    plan = propose(topics, HOST, small_model(), 3)
    assert plan.gap == 0
    assert len(plan.assignments) == len(fewest(HostFeasibility(small_model(), HOST[0], topics), 3))


def test_few_fast_hosts_take_topics_that_fit_nowhere_else():
    hosts = [Host("fast", cores=4, speed=3.0, count=1), Host("slow", cores=4)]
    topics = [TopicLoad("hot", 60, 0.03), *request(14)]
    plan = propose(topics, hosts, small_model(), 6)
    assert plan.assignment_of("hot").kind.name == "fast"
    assert sorted(name for seat in plan.assignments for name in seat.topics) == sorted(topic.name for topic in topics)


def test_nothing_to_place():
    assert propose([], HOST, small_model(), 6).assignments == ()


def test_many_different_rates_become_few_types():
    topics = [TopicLoad(f"t{n}", 5 + n / 100, 0.01) for n in range(400)]
    plan = propose(topics, HOST, small_model(), 6, budget=20_000)
    assert plan.lower_bound <= len(plan.assignments)
    assert len({topic.rate for topic in bucketed(topics)}) <= 200
    assert all(rough.rate <= topic.rate for rough, topic in zip(bucketed(topics, up=False), topics, strict=True))


def test_a_topic_too_fast_for_any_host_must_be_split():
    hot = TopicLoad("hot", 100, 0.03)
    with pytest.raises(LatencyLimitUnreachable, match=r"'hot'.*parts=\d") as error:
        propose([hot, *request(3)], HOST, small_model(), 6)
    parts = parts_of(hot, error.value.parts)
    assert sum(part.rate for part in parts) == pytest.approx(100)
    assert len(propose(parts, HOST, small_model(), 6).assignments) >= 1
    assert split(hot, HOST, small_model()).parts == len(parts)


def test_a_latency_limit_below_the_processing_time_is_infeasible():
    with pytest.raises(LatencyLimitUnreachable, match="parts=None"):
        propose([TopicLoad("slow", 1, 0.05, promise=0.01)], HOST, small_model(), 6)


def test_a_lower_latency_limit_needs_more_hosts():
    topics = request(24, rate=14, interval=0.03, promise=0.5)
    plan = propose(topics, HOST, small_model(), 6)
    costs = tightened(topics, HOST, small_model(), 6, shares=(0.5, 0.001))
    assert costs[0.5] >= len(plan.assignments)
    assert costs[0.001] is None


def test_an_explanation_names_neighbours_and_other_hosts():
    topics = request(14)
    plan = propose(topics, HOST, small_model(), 6)
    found = explain("t3", plan, topics, small_model())
    assert found.host == plan.assignment_of("t3").host
    assert set(found.neighbours) == set(plan.assignment_of("t3").topics) - {"t3"}
    assert all(cost >= 0 for cost in found.neighbours.values())
    assert len(found.alternatives) == len(plan.assignments) - 1
    assert "limit 1000 ms" in " ".join(found.sentences)


def test_invalid_requests_are_rejected():
    with pytest.raises(ConfigError, match="'k'"):
        propose(request(2), HOST, small_model(), 0)
    with pytest.raises(ConfigError, match="no host"):
        propose(request(2), [], small_model(), 6)
    with pytest.raises(ConfigError, match="duplicate name"):
        propose([TopicLoad("t", 1, 0.01)] * 2, HOST, small_model(), 6)
    with pytest.raises(NotEnoughHosts, match="needed=2"):
        propose(request(8), [Host(count=1)], small_model(), 4)
    with pytest.raises(NotEnoughHosts):
        propose(request(20), [Host("a", count=1), Host("b", count=1)], small_model(), 4)
    with pytest.raises(ConfigError, match="no such topic"):
        propose(request(2), HOST, small_model(), 6).assignment_of("t9")
