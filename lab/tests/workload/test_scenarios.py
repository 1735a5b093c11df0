"""Scenarios: the file format, the schedule and the content of events."""

from itertools import islice

import numpy as np
import pytest

from thinwire.filters.where.where_grammar import parse_where
from thinwire_lab.errors import ScenarioError
from thinwire_lab.workload.scenarios.scenario import RateCurve, ScenarioTopic, read_scenario
from thinwire_lab.workload.scenarios.scenario_events import (
    events_of,
    schema_of,
    schema_version_at,
    subscriber_predicates,
)

SCENARIO = """
name = "morning"
duration = 20
seed = 3

[topics.market]
source = "market"
sources = 5
publishers = 2
rate = [[0, 100], [10, 300]]

[topics.wide]
source = "workload"
rate = 50
arrivals = "random"
drift = 1.0
shapes = 2
settings = { retain = true }

[[subscribers]]
topic = "market"
count = 3
tolerance = { close = 0.5 }
where = "volume > 1000"

[[subscribers]]
topic = "wide"
count = 4
interests = true
"""


def test_a_scenario_is_read():
    scenario = read_scenario(SCENARIO)
    assert (scenario.name, scenario.duration, scenario.seed, scenario.settle) == ("morning", 20.0, 3, 1.0)
    market, wide = scenario.topics
    assert (market.sources, market.publishers, market.rate.rate(5)) == (5, 2, 200)
    assert (wide.arrivals, wide.drift, wide.shapes, wide.settings) == ("random", 1.0, 2, {"retain": True})
    assert [audience.count for audience in scenario.audiences] == [3, 4]
    assert scenario.audiences[0].options == {"tolerance": {"close": 0.5}, "where": "volume > 1000"}


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("duration = 20", "duration = -1", "duration"),
        ("duration = 20", "", "duration"),
        ('source = "market"', 'source = "moon"', "topics.market.source"),
        ("rate = 50", "", "topics.wide.rate"),
        ("rate = 50", "rate = [[5, 1], [5, 2]]", "topics.wide.rate"),
        ("sources = 5", "sources = 0", "topics.market.sources"),
        ("sources = 5", "drift = 0.5", "topics.market.drift"),
        ("drift = 1.0", "sources = 2", "topics.wide.sources"),
        ("drift = 1.0", "drift = 2", "topics.wide.drift"),
        ('arrivals = "random"', "arival = 3", "topics.wide.arival"),
        ('topic = "wide"', 'topic = "narrow"', r"subscribers\[1\].topic"),
        ("interests = true", "interests = 1", r"subscribers\[1\].interests"),
        ("count = 3", "count = 100000", r"subscribers\[0\].count"),
        ("seed = 3", "speed = 3", "speed"),
    ],
)
def test_invalid_fields_are_rejected_by_name(old, new, field):
    with pytest.raises(ScenarioError, match=f"field='{field}'"):
        read_scenario(SCENARIO.replace(old, new, 1))


def test_invalid_toml_is_rejected():
    with pytest.raises(ScenarioError, match="not TOML"):
        read_scenario("topics = [")


def test_instants_follow_the_rate():
    curve = RateCurve(((0.0, 10.0), (10.0, 30.0), (20.0, 0.0)))
    instants = curve.instants(30.0)
    assert len(instants) == 350  # 200 on the way up, 150 on the way down, then none
    assert (np.diff(instants) > 0).all()
    for second in (1, 5, 10, 15, 20):
        knots = np.linspace(0, second, 2_001)
        due = np.trapezoid([curve.rate(at) for at in knots], knots)
        assert abs(np.searchsorted(instants, second) - due) <= 1
    assert instants[-1] <= 20


def test_random_instants_are_as_many_and_the_same_for_a_seed():
    curve = RateCurve(((0.0, 200.0),))
    one, again, other = (curve.instants(20.0, "random", seed) for seed in (1, 1, 2))
    assert (one == again).all()
    assert len(one) != len(other) or (one != other).any()
    assert abs(len(one) - 4_000) < 5 * 4_000**0.5
    gaps = np.diff(one)
    assert 0.9 < gaps.std() / gaps.mean() < 1.1


def test_more_events_than_a_run_takes_are_refused():
    with pytest.raises(ScenarioError, match="more events than a run supports"):
        RateCurve(((0.0, 1e6),)).instants(86_400.0)


def test_no_rate_no_events():
    assert len(RateCurve(((0.0, 0.0),)).instants(10.0)) == 0


def test_a_workload_gives_the_same_events_and_its_publishers_different_ones():
    scene = ScenarioTopic("wide", "workload", RateCurve(((0.0, 100.0),)), shapes=2, drift=0.5)
    instants = scene.rate.instants(10.0)
    one, again, other = (list(events_of(scene, instants, 10.0, 7, publisher)) for publisher in (0, 0, 1))
    assert one == again
    assert one != other
    regions = {event["region"] for event in one}
    assert len(regions) > 1
    assert [schema_version_at(scene, instant, 10.0) for instant in (0.0, 4.9, 5.0, 10.0)] == [1, 1, 2, 2]
    for event, instant in zip(one, instants, strict=True):
        schema = schema_of(scene, schema_version_at(scene, instant, 10.0))
        assert {*event} == {p.name for p in schema}
        assert 0 <= event["topic_at"] <= 1
        assert event["time"] == round(1e6 * instant)


def test_interests_drift_to_other_places():
    def topics(drift):
        scene = ScenarioTopic("wide", "workload", RateCurve(((0.0, 400.0),)), drift=drift)
        made = list(events_of(scene, scene.rate.instants(10.0), 10.0, 7, 0))
        return np.histogram([event["topic_at"] for event in made[-1_000:]], bins=50, range=(0, 1))[0]

    still, moved, settled = topics(0.0), topics(1.0), topics(0.0)
    assert (still == settled).all()
    assert np.abs(still - moved).sum() > 400  # a good part of a thousand events


def test_samples_continue_as_they_do_alone():
    scene = ScenarioTopic("trade", "market", RateCurve(((0.0, 10.0),)), sources=2, publishers=2)
    first, second = (list(islice(events_of(scene, np.arange(6.0), 10.0, 1, number), 6)) for number in (0, 1))
    assert [event["symbol"] for event in first[:2]] != [event["symbol"] for event in second[:2]]
    assert schema_of(scene).name == "trade"


def test_interests_are_predicates_on_the_workload():
    scene = ScenarioTopic("wide", "workload", RateCurve(((0.0, 10.0),)))
    wheres = subscriber_predicates(20, 3)
    for text in wheres:
        where = parse_where(text)
        where.check(schema_of(scene))
        assert where.names == ("language_at", "topic_at")
    assert len(set(wheres)) > 5
