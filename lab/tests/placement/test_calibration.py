"""Measured runs: their document, and a simulated host fitted to some runs and validated with the others."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.clock import VirtualClock
from thinwire.errors import ConfigError
from thinwire.placement import Host, TopicLoad
from thinwire_lab.placement.calibration import calibrate, closeness, fit_host, split_runs
from thinwire_lab.placement.measured_runs import MeasuredRun, TopicResult, runs_document, runs_of
from thinwire_lab.placement.queue_simulator import simulate
from thinwire_lab.placement.run_files import read_runs, write_runs

TRUE = Host("box", cores=2, speed=0.8, contention=0.1, overhead=0.004)
LOADS = [(10, 0.02), (20, 0.02), (30, 0.02), (35, 0.02), (15, 0.04), (5, 0.04)]


def measured(topics, seed, disturbed="", host=TRUE):
    """Return the run that a load generator would record on a simulated host."""
    found = simulate(topics, host, seed, seconds=30, warm_up=2)
    measurements = tuple(
        TopicResult(topic, one.messages, one.p50, one.p90, 2 * one.p90, topic.interval / host.speed, spread=host.spread)
        for topic, one in zip(topics, found, strict=True)
    )
    return MeasuredRun(Host("box", cores=host.cores), measurements, "poisson", 30, 2, disturbed=disturbed)


def some_runs():
    alone = [[TopicLoad("t", rate, interval)] for rate, interval in LOADS]
    together = [
        [TopicLoad(f"t{n}", rate, interval) for n in range(size)] for size in (2, 3) for rate, interval in LOADS[:3]
    ]
    return [measured(topics, [7, n]) for n, topics in enumerate(alone + together)]


def test_a_fitted_host_predicts_other_runs():
    found = calibrate(some_runs())
    assert found.host.speed == pytest.approx(TRUE.speed, rel=0.1)
    assert found.host.overhead == pytest.approx(TRUE.overhead, abs=0.004)
    assert found.host.spread == pytest.approx(TRUE.spread)
    assert found.test_error.runs == 6
    assert found.test_error.fit > 0.9
    assert found.test_error.off < 0.25
    assert closeness(Host("box", cores=2), some_runs()).fit < found.test_error.fit


def test_repeats_stay_on_one_side_and_disturbed_runs_are_left_out():
    runs = [measured([TopicLoad("t", rate, 0.02)], [turn, rate]) for rate in (5, 10, 20) for turn in range(3)]
    fitting, others = split_runs(
        [*runs, measured([TopicLoad("t", 30, 0.02)], 1, disturbed="a neighbour took the processor")]
    )
    assert len(fitting) + len(others) == 9
    assert not {run.configuration for run in fitting} & {run.configuration for run in others}


def test_calibration_without_runs_is_rejected():
    with pytest.raises(ConfigError, match="not disturbed"):
        fit_host([])
    runs = some_runs()[:1]
    with pytest.raises(ConfigError, match="each host separately"):
        fit_host([*runs, replace(runs[0], host=Host("other", cores=8))])


def test_runs_round_trip_through_a_file(tmp_path):
    runs = some_runs()[:3]
    write_runs(tmp_path / "runs.json", runs, VirtualClock(0.0), how="simulated, for a test")
    assert read_runs(tmp_path / "runs.json") == runs
    assert json.loads((tmp_path / "runs.json").read_text())["date"] == "1970-01-01"


def document(**change):
    found = runs_document(some_runs()[:1], machine="m", date="d", how="h")
    found["runs"][0].update(change)
    return found


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"arrivals": "bursts"}, "runs[0].arrivals"),
        ({"colour": 1}, "runs[0].colour"),
        ({"results": []}, "runs[0].results"),
        ({"host": {"name": "x", "cores": 0}}, "cores"),
        ({"seconds": float("nan")}, "runs[0].seconds"),
        ({"topics": []}, "runs[0].topics"),
        ({"topics": [{"name": "t", "rate": 1, "interval": 0.1}]}, "runs[0].topics[0].promise"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_run_is_rejected_with_its_field(change, field):
    with pytest.raises(ConfigError) as error:
        runs_of(document(**change))
    assert field in str(error.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_an_invalid_document_is_rejected(garbage):
    with pytest.raises(ConfigError):
        runs_of(garbage)
    with pytest.raises(ConfigError):
        runs_of({"kind": "edge runs", "version": 1, "runs": [garbage]})
