"""Parts of the demonstration that need no processes: schedule, subscriptions, delivery check, phases."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinwire as tw
from thinwire.demo import building
from thinwire.demo.delivery_check import DeliveryCheck
from thinwire.demo.demo_run import DemoView, SubscriberView, phase_rows
from thinwire.demo.demo_scenario import (
    PLANTS,
    SUBSCRIPTIONS,
    TANKS,
    TOPIC,
    DemoSubscription,
    PlantEvents,
    SendSchedule,
)
from thinwire.ledger import Row, RowTally
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.topic_documents import SubscriptionDocument

HALF = DemoSubscription("0.5", 0.5)
NUMBERS = {p.name for p in building.schema().wire if p.kind == "number"}


def delivered(ordinal, plant=0, bound=0.5, off=0.0):
    """Return an event as delivered, with one of its values changed by `off`."""
    truth = PlantEvents(plant).event(ordinal)
    bounds = {p.name: bound if p.name in NUMBERS else 0.0 for p in building.schema().wire}
    seen = truth | {"hot_tank_1": truth["hot_tank_1"] + off}
    return tw.Event(seen, bound=bounds, source=(truth["plant"], truth["controller"]), ordinal=ordinal)


FROM_FIRST_EVENT = {PlantEvents(plant).name: 0 for plant in range(PLANTS)}


def check_of(*events, expected_after=FROM_FIRST_EVENT, subscription=HALF):
    tally = RowTally("test")
    check = DeliveryCheck(subscription, tally)
    check.start(expected_after)
    for event in events:
        check.receive(event)
    return check, tally.row()


@given(
    st.integers(0, PLANTS - 1),
    st.integers(1, 1_000_000),
    st.floats(1, 2_000),
    st.integers(10**15, 2 * 10**15),
)
def test_an_event_is_due_at_its_instant_and_not_before(plant, ordinal, rate, start):
    schedule = SendSchedule.of(rate, start)
    instant = schedule.instant(plant, ordinal)
    assert schedule.due(plant, instant) == ordinal
    assert schedule.due(plant, instant - 1) == ordinal - 1


def test_the_events_of_a_plant_are_those_of_the_sample():
    plant = PlantEvents(2)
    truth = list(building.events(1_200, 1, first=2))
    assert [plant.event(ordinal) for ordinal in (1, 2, 499, 500, 501, 1_200)] == [
        truth[ordinal - 1] for ordinal in (1, 2, 499, 500, 501, 1_200)
    ]


def test_values_within_their_bound_are_counted_with_their_error():
    check, row = check_of(delivered(1), delivered(2, off=0.4), delivered(1, plant=1))
    assert (check.result.checked, check.result.violations, check.result.lost, check.result.early) == (3, 0, 0, 0)
    assert round(row.error_max, 6) == 0.8
    assert row.errors["hot_tank_1"].ratios.count == 3


def test_a_value_beyond_its_bound_is_named():
    check, row = check_of(delivered(1), delivered(2, off=0.6))
    assert (check.result.checked, check.result.violations) == (2, 1)
    assert "hot_tank_1 of event 2 of karlsruhe-solar-cooling-01 differs by 0.6" in check.result.first_violation
    assert row.error_max > 1


def test_the_first_violation_of_an_event_is_named():
    event = delivered(1, off=0.6)
    check, _ = check_of(event.like({**event, "room_co2": event["room_co2"] + 100}))
    assert check.result.violations == 1
    assert check.result.first_violation.startswith("hot_tank_1 of event 1")


def test_an_exact_subscription_tolerates_no_error():
    events = delivered(1, bound=0.0), delivered(2, bound=0.0, off=0.001)
    check, row = check_of(*events, subscription=DemoSubscription("0", 0.0))
    assert check.result.violations == 1
    assert row.broken == 1


def test_a_larger_bound_is_early_until_the_tolerance_was_applied():
    events = [delivered(1, bound=1.0, off=0.9), delivered(2), delivered(3, bound=1.0)]
    check, row = check_of(*events)
    assert (check.result.early, check.result.violations) == (1, 1)
    assert "has the bound 1, requested was 0.5" in check.result.first_violation
    assert row.errors["hot_tank_1"].ratios.count == 2


def test_an_early_event_beyond_its_own_bound_is_broken_too():
    check, _ = check_of(delivered(1, bound=1.0, off=1.2))
    assert (check.result.early, check.result.violations) == (1, 1)


def test_events_missing_between_two_are_lost():
    check, _ = check_of(delivered(1), delivered(4))
    assert (check.result.checked, check.result.lost, check.result.violations) == (2, 2, 0)


def test_an_event_delivered_twice_is_a_violation():
    check, _ = check_of(delivered(1), delivered(2), delivered(2))
    assert (check.result.checked, check.result.violations) == (2, 1)
    assert "event 2 of karlsruhe-solar-cooling-01 was delivered after event 2" in check.result.first_violation


def test_an_early_subscriber_must_get_every_event():
    check, _ = check_of(delivered(1), delivered(2))
    last = {PlantEvents(0).name: 2, PlantEvents(1).name: 5}
    check.finish(last)
    assert check.result.lost == 5


def test_a_late_subscriber_must_get_the_events_after_its_first_one():
    check, _ = check_of(delivered(7), expected_after={})
    check.finish({PlantEvents(0).name: 7, PlantEvents(1).name: 5})
    assert check.result.lost == 0
    check.finish({PlantEvents(0).name: 9, PlantEvents(1).name: 5})
    assert check.result.lost == 2


def test_a_late_subscriber_must_get_the_events_that_were_due_after_it_joined():
    name = PlantEvents(0).name
    check, _ = check_of(expected_after={name: 4})
    assert check.is_complete({name: 4})
    assert not check.is_complete({name: 6})
    check.finish({name: 6})
    assert check.result.lost == 2
    check, _ = check_of(delivered(3), delivered(4), expected_after={name: 4})
    assert not check.is_complete({name: 6})
    check, _ = check_of(delivered(6), expected_after={name: 4})
    assert (check.result.lost, check.is_complete({name: 6})) == (1, True)


CHANGES = DemoSubscription("changes", 0.5, emit="changes")


def largest_change(ordinal):
    """Return the largest difference of a number to the first event."""
    first, then = PlantEvents(0).event(1), PlantEvents(0).event(ordinal)
    return max(abs(then[name] - first[name]) for name in NUMBERS)


def first_beyond(tolerance):
    return next(ordinal for ordinal in range(2, 1_000) if largest_change(ordinal) > tolerance)


def test_without_a_change_the_last_event_must_stay_within_the_tolerance():
    change = first_beyond(0.5)
    check, row = check_of(delivered(1), delivered(change), subscription=CHANGES)
    assert (check.result.checked, check.result.violations, check.result.lost) == (change, 0, 0)
    assert 0 <= row.error_max <= 1


def test_a_change_that_is_not_delivered_is_a_violation():
    change = first_beyond(0.5)
    check, row = check_of(delivered(1), delivered(change + 1), subscription=CHANGES)
    assert check.result.violations == 1
    assert f"of event {change} of karlsruhe-solar-cooling-01, which was not delivered" in check.result.first_violation
    assert row.error_max > 1


def test_a_change_that_is_never_delivered_is_found_at_the_end():
    change = first_beyond(0.5)
    check, _ = check_of(delivered(1), subscription=CHANGES, expected_after={})
    check.finish({PlantEvents(0).name: change - 1})
    assert (check.result.violations, check.result.lost) == (0, 0)
    check, _ = check_of(delivered(1), subscription=CHANGES, expected_after={})
    check.finish({PlantEvents(0).name: change})
    assert (check.result.violations, check.result.lost) == (1, 0)


def test_missing_events_of_an_incomplete_subscription_to_changes_are_lost():
    check, _ = check_of(delivered(1), subscription=CHANGES)
    check.finish({PlantEvents(0).name: 5, PlantEvents(1).name: 3}, has_caught_up=False)
    assert check.result.lost == 7


def test_a_subscription_to_changes_must_get_the_first_event():
    check, _ = check_of(delivered(3), subscription=CHANGES)
    assert check.result.lost == 2


def test_a_projection_has_the_requested_properties_and_no_others():
    tanks = DemoSubscription("tanks", 0.5, properties=TANKS)
    event = delivered(1)
    part = event.like(tanks.project(event), {name: b for name, b in event.bound.items() if tanks.selects(name)})
    check, row = check_of(part, subscription=tanks)
    assert check.result.violations == 0
    assert set(row.errors) == {*TANKS, "timestamp"}
    check, _ = check_of(event, subscription=tanks)
    assert check.result.violations == 1
    assert "properties that were not requested" in check.result.first_violation


def test_a_timestamp_has_a_tolerance_if_requested():
    truth = delivered(1)
    assert truth["timestamp"] == "2018-07-02T05:00:00.003Z"
    late = truth.like({**truth, "timestamp": "2018-07-02T05:00:00.043Z"}, {**truth.bound, "timestamp": 0.05})
    check, row = check_of(late, subscription=DemoSubscription("0.5", 0.5, time_tolerance=0.05))
    assert (check.result.violations, check.result.early) == (0, 0)
    assert row.errors["timestamp"].worst == 0.04
    later = late.like({**late, "timestamp": "2018-07-02T05:00:00.054Z"})
    assert (
        "timestamp of event 1"
        in check_of(later, subscription=DemoSubscription("0.5", 0.5, time_tolerance=0.05))[0].result.first_violation
    )
    assert check_of(late, subscription=DemoSubscription("0.5", 0.5))[0].result.early == 1


def test_every_subscription_has_a_class_of_its_own():
    assert len({subscription.class_id for subscription in SUBSCRIPTIONS}) == len(SUBSCRIPTIONS) == 5
    for subscription in SUBSCRIPTIONS:
        document = SubscriptionDocument(TOPIC, "another", **subscription.request, sources={}, since=7.0)
        assert DemandClass.of(document).id == subscription.class_id


def test_a_channel_is_compared_with_the_log():
    subscription = SUBSCRIPTIONS[1]
    channel = Row("r", TOPIC, "channel", subscription.name, "translator", events=100, frames=20, data_bytes=200)
    view = SubscriberView(subscription, 0.0, Row("r", TOPIC), channel, has_joined=True, log_bytes=800)
    assert view.saved_of_log == 0.75
    assert SubscriberView(subscription, 0.0, Row("r"), Row("r"), log_bytes=800).saved_of_log is None


def test_the_translator_has_no_cpu_per_event_before_the_first_one():
    row = Row("r", TOPIC, "log", role="translator", cpu_seconds={"translator": 0.012})
    assert DemoView(0.0, (), row).translator_cpu is None
    assert DemoView(0.0, (), Row("r", events=120, cpu_seconds=row.cpu_seconds)).translator_cpu == 0.0001


def test_each_phase_has_the_difference_of_the_publishers_figures():
    starts = [("1", Row("r")), ("0.5", Row("r", events=7, key_bytes=50, link_bytes=900))]
    published = Row("r", events=10, key_bytes=70, link_bytes=1_000, cpu_seconds={"publisher": 0.5})
    loose, strict = phase_rows(starts, published)
    assert (loose.class_, loose.events, loose.key_bytes, loose.link_bytes, loose.cpu_seconds) == ("1", 7, 50, 900, {})
    assert (strict.class_, strict.events, strict.key_bytes, strict.link_bytes) == ("0.5", 3, 20, 100)
    assert strict.cpu_seconds == {"publisher": 0.5}


COMPILED_LATER = """
import gc
from numba.core.dispatcher import Dispatcher
from thinwire.demo.demo_scenario import PlantEvents, compile_kernels
from thinwire_lab.streams.checked_stream import CheckedLink
from thinwire.codec import StreamConfig
from thinwire.codec import Demand
from thinwire.demo import building

def compiled():
    found = (kernel for kernel in gc.get_objects() if isinstance(kernel, Dispatcher))
    return {(kernel.py_func.__name__, str(kind)) for kernel in found for kind in kernel.signatures}

compile_kernels()
before = compiled()
for number in range(3):
    for tolerance in (1.0, 0.5, 0.0):
        plant, config = PlantEvents(number), StreamConfig(demand=Demand(default_tolerance=tolerance), max_silence=1.0)
        link = CheckedLink(building.schema(), config, start=0.0)
        for ordinal in range(1, 1_501):
            link.publish(plant.event(ordinal), now=0.015 * ordinal)
        link.close()
print(len(before), sorted(compiled() - before))
"""


@pytest.mark.slow
def test_all_kernels_are_compiled_in_advance():
    """A compilation during the run would delay an event by seconds."""
    source = str(Path(__file__).parents[2] / "src")
    result = subprocess.run(
        [sys.executable, "-c", COMPILED_LATER],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    kernels, _, left = result.stdout.strip().partition(" ")
    assert int(kernels) > 0, result.stderr
    assert left == "[]"
