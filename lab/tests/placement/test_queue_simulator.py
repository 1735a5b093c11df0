"""The simulated host: queues, shared cores, and agreement with theory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire.placement import Host, TopicLoad
from thinwire.placement.hosts import check_together, columns
from thinwire.placement.queueing_features import coordinates
from thinwire_lab.placement.queue_simulator import simulate


def test_an_idle_topic_takes_its_interval():
    (latency,) = simulate([TopicLoad("t", rate=1, interval=0.05)], Host(), seed=1)
    assert 0.05 < latency.p90 < 0.08
    assert latency.late == 0


def test_a_topic_beyond_its_core_builds_a_backlog():
    (latency,) = simulate([TopicLoad("t", rate=30, interval=0.05)], Host(), seed=1)
    assert latency.p90 > 20
    assert latency.busy == pytest.approx(1.0, abs=0.02)


def test_waiting_is_that_of_one_queue():
    # Poisson arrivals, little spread: mean wait rho * s * (1 + cv2) / (2 * (1 - rho)); its p90 from the tail
    runs = [simulate([TopicLoad("t", 70, 0.01)], Host(), seed, seconds=600)[0].p90 for seed in range(3)]
    wait = np.log(10 * 0.7) * 0.01 * 1.0225 / (2 * 0.3)
    assert np.mean(runs) == pytest.approx(wait + 0.01, rel=0.25)


def test_more_workers_than_cores_share_them():
    topics = [TopicLoad(f"t{n}", 15, 0.05) for n in range(6)]
    four = simulate(topics, Host(cores=4), seed=1)
    eight = simulate(topics, Host(cores=8), seed=1)
    assert min(latency.p90 for latency in four) > 2 * max(latency.p90 for latency in eight)


def test_network_latency_is_added():
    topic = [TopicLoad("t", 10, 0.02)]
    near, far = (simulate(topic, Host(overhead=seconds), seed=1)[0] for seconds in (0.0, 0.1))
    assert (far.p50, far.p90) == pytest.approx((near.p50 + 0.1, near.p90 + 0.1))


def test_a_run_too_long_is_refused():
    with pytest.raises(ConfigError, match="field='seconds'"):
        simulate([TopicLoad("t", 1e6, 0.001)], Host(), seed=1, seconds=3600)


def test_a_seed_gives_the_same_run():
    topics = [TopicLoad("a", 10, 0.02), TopicLoad("b", 20, 0.01)]
    assert simulate(topics, Host(), seed=4) == simulate(topics, Host(), seed=4)
    assert simulate(topics, Host(), seed=4) != simulate(topics, Host(), seed=5)


def test_periodic_arrivals_wait_less():
    topic = [TopicLoad("t", 18, 0.05)]
    assert simulate(topic, Host(), 1, arrivals="periodic")[0].p90 < simulate(topic, Host(), 1)[0].p90


topics = st.builds(TopicLoad, st.just("t"), st.floats(0.1, 100), st.floats(0.001, 0.2))


@settings(max_examples=60)
@given(st.lists(topics, min_size=1, max_size=5), topics, st.integers(1, 8))
def test_every_coordinate_rises_with_more_topics(together, another, cores):
    host = Host(cores=cores)
    alone = coordinates(*columns([together], host), cores, host.contention)[0]
    more = coordinates(*columns([[*together, another]], host), cores, host.contention)[0]
    assert (more[: len(together)] >= alone - 1e-9).all()


@pytest.mark.parametrize("wrong", [0, -1, 33, True, 2.5])
def test_k_has_limits(wrong):
    with pytest.raises(ConfigError, match="field='k'"):
        check_together(wrong)


@pytest.mark.parametrize("field", ["interval", "promise", "rate"])
@pytest.mark.parametrize("value", [-1, 0, float("inf"), float("nan")])
def test_a_topic_has_limits(field, value):
    with pytest.raises(ConfigError, match=field):
        TopicLoad("t", **{"rate": 1.0, "interval": 0.1, "promise": 1.0, field: value})


@pytest.mark.parametrize(
    ("field", "value"), [("contention", 2), ("cores", 0), ("count", 0), ("overhead", -1), ("speed", 0), ("spread", 0)]
)
def test_a_host_has_limits(field, value):
    with pytest.raises(ConfigError, match=field):
        Host("h", **{field: value})
