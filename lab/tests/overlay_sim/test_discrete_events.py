"""Events run at their instants; events of one instant run in the order of scheduling."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire_lab.overlay_sim.discrete_events import EventScheduler, Station

TIMES = st.lists(st.floats(0, 1e6), max_size=40)


@given(TIMES)
def test_every_event_runs_once_in_order(times: list[float]) -> None:
    scheduler, seen = EventScheduler(), []
    for number, time in enumerate(times):
        scheduler.at(time, lambda number, time: seen.append((scheduler.now, time, number)), number, time)
    assert scheduler.run() == len(times)
    assert [(time, number) for _, time, number in seen] == sorted((time, n) for n, time in enumerate(times))
    assert all(now == time for now, time, _ in seen)


@given(TIMES, st.floats(0, 1e6))
def test_later_events_stay_pending(times: list[float], until: float) -> None:
    scheduler = EventScheduler()
    for time in times:
        scheduler.at(time, lambda: None)
    assert scheduler.run(until) == sum(time <= until for time in times)
    assert len(scheduler) == sum(time > until for time in times)
    assert scheduler.now == until


@pytest.mark.parametrize("time", [-1.0, math.inf, math.nan])
def test_past_and_infinite_instants_are_rejected(time: float) -> None:
    with pytest.raises(ValueError, match="before the current time"):
        EventScheduler().at(time, lambda: None)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 5)), max_size=30))
def test_a_station_processes_jobs_sequentially(jobs: list[tuple[float, float]]) -> None:
    station, free = Station(), 0.0
    for now, seconds in sorted(jobs):
        free = max(free, now) + seconds
        assert station.work(seconds, now) == free
    assert station.busy_seconds == pytest.approx(sum(seconds for _, seconds in jobs))
