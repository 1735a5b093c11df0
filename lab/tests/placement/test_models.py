"""Models: accuracy, monotonicity, files, and rejection of invalid documents."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trained_models import small_model

from thinwire.errors import ConfigError
from thinwire.placement import Host, MonotoneModel, TopicLoad
from thinwire.placement.latency_model import LatencyFeedback
from thinwire.placement.neural_network import layer_shapes
from thinwire_lab.placement.calibration import calibrated
from thinwire_lab.placement.latency_model_training import fit_margin
from thinwire_lab.placement.model_scores import score, simulate_placement
from thinwire_lab.placement.network_training import fit_network, initial_weights, loss, split_weights
from thinwire_lab.placement.published_model import PublishedModel, fit_published
from thinwire_lab.placement.queue_simulator import HostRun, random_runs

topics = st.builds(TopicLoad, st.just("t"), st.floats(0.5, 90), st.floats(0.002, 0.1))


@settings(max_examples=60)
@given(st.lists(topics, min_size=1, max_size=5), topics)
def test_more_topics_never_lower_the_prediction(together, another):
    model, host = small_model(), Host()
    before, after = model.bound(together, host), model.bound([*together, another], host)
    assert (after[: len(together)] >= before * (1 - 1e-9)).all()


@settings(max_examples=60)
@given(topics, st.floats(1, 3))
def test_a_higher_rate_never_lowers_the_prediction(topic, factor):
    model, host = small_model(), Host()
    faster = TopicLoad("t", topic.rate * factor, topic.interval)
    assert model.bound([faster], host)[0] >= model.bound([topic], host)[0] * (1 - 1e-9)


def test_our_model_predicts_new_runs_and_bounds_most_of_them():
    runs = random_runs(60, 3, seed=50, seconds=30)
    found = score(small_model(), runs)
    assert found.fit > 0.9
    logs = np.log([p90 for run in runs for p90 in run.p90])
    expected = np.concatenate([np.log(small_model().bound(run.topics, run.host)) for run in runs])
    assert 0.8 < np.mean(logs <= expected) <= 1


@cache
def small_published():
    return fit_published({k: random_runs(80, k, seed=1, seconds=30) for k in (1, 2)}, rounds=60)


def test_the_published_model_predicts_new_runs():
    for k in (1, 2):
        assert score(small_published(), random_runs(40, k, seed=9, seconds=30)).fit > 0.8


def test_the_published_model_round_trips_through_a_file():
    model, runs = small_published(), random_runs(5, 2, seed=9, seconds=10)
    again = PublishedModel.from_document(json.loads(json.dumps(model.to_document())))
    assert score(again, runs) == score(model, runs)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "rising"},
        {"accept": 0},
        {"alone": {"shift": [0, 0], "scale": [1, 1], "weights": [1]}},
        {"together": {"1": {}}},
        {"together": {"two": {}}},
        {"together": {"2": {"rising": False}}},
    ],
    ids=str,
)
def test_an_invalid_published_model_is_rejected(change):
    with pytest.raises(ConfigError):
        PublishedModel.from_document({**small_published().to_document(), **change})


def test_network_latency_is_added():
    topic = [TopicLoad("t", 10, 0.02)]
    near, far = (small_model().p90(topic, Host(overhead=seconds))[0] for seconds in (0.0, 0.5))
    assert far == pytest.approx(near + 0.5)


@pytest.mark.parametrize("rising", [False, True])
def test_slopes_are_those_of_the_loss(rising):
    dice = np.random.Generator(np.random.PCG64(3))
    given_, target, share = dice.random((7, 3)), dice.random(7), np.ones(7)
    shapes = layer_shapes(3, (4, 3), rising)
    flat = initial_weights(shapes, rising, 2)

    def value(at):
        return loss(given_, target, share, split_weights(at, shapes), rising, 0.1)

    slope = value(flat)[1]
    for index in range(0, len(flat), 5):
        step = np.zeros(len(flat))
        step[index] = 1e-6
        assert slope[index] == pytest.approx((value(flat + step)[0] - value(flat - step)[0]) / 2e-6, abs=1e-5)


def test_a_model_round_trips_through_a_file():
    model = small_model()
    again = MonotoneModel.from_document(json.loads(json.dumps(model.to_document())))
    topics_ = [TopicLoad("a", 20, 0.02), TopicLoad("b", 10, 0.05)]
    assert again.bound(topics_, Host()).tolist() == model.bound(topics_, Host()).tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "pickle"},
        {"margin": {"kept": 0.9, "places": [0, 1], "bounds": [1, 0]}},
        {"network": {}},
        {"network": {"rising": True, "shift": [0], "scale": [1], "level": 0, "height": 1, "weights": [[[1], [0]]]}},
        {"version": 99},
        {"shift": float("nan")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_invalid_model_is_rejected(change):
    with pytest.raises(ConfigError):
        MonotoneModel.from_document({**small_model().to_document(), **change})


def test_layers_that_do_not_fit_are_refused():
    document = small_model().to_document()
    document["network"]["weights"][0] = document["network"]["weights"][0][1:]
    with pytest.raises(ConfigError, match="do not match"):
        MonotoneModel.from_document(document)


def test_a_margin_is_monotonic():
    dice = np.random.Generator(np.random.PCG64(1))
    margin = fit_margin(dice.random(500), dice.normal(size=500))
    bounds = margin.above(np.linspace(-1, 2, 50))
    assert (np.diff(bounds) >= -1e-12).all()


def test_a_rising_network_rises_beyond_its_samples():
    x = np.linspace(0, 1, 50)[:, None]
    network = fit_network(x, 3 * x[:, 0], hidden=(4,), rising=True, penalty=0.001, rounds=100)
    assert network.predict(np.array([[2.0]]))[0] > network.predict(np.array([[1.0]]))[0]


def test_a_host_of_unknown_speed_is_found_from_a_few_runs():
    runs = random_runs(12, 2, seed=30, seconds=30, host=Host(speed=2.0))
    unknown = [HostRun(run.topics, Host(), run.p90) for run in runs]
    assert calibrated(small_model(), Host(), unknown).speed == pytest.approx(2.0, rel=0.2)


def test_reports_move_the_model_and_missing_ones_do_not():
    learner = LatencyFeedback(small_model())
    topic = [TopicLoad("t", 10, 0.02)]
    before = learner.model.p90(topic, Host())[0]
    learner.observe(topic, Host(), [None])
    assert learner.model.p90(topic, Host())[0] == before
    for _ in range(300):
        learner.observe(topic, Host(), [3 * before])
    assert learner.model.p90(topic, Host())[0] > 2 * before


def test_an_outcome_counts_missed_latency_limits():
    slow = [TopicLoad("a", 30, 0.05), TopicLoad("b", 1, 0.01)]
    found = simulate_placement([(0,), (1,)], slow, Host(), seed=1)
    assert found.hosts == 2
    assert found.over == 0.5
    assert 0.5 < found.late < 1
