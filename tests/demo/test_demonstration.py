"""The parts of the demonstration that need no processes: the pace, the guests, the witness, the phases."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinwire as tw
from thinwire.demo import building
from thinwire.demo.demo_publisher import Phases
from thinwire.demo.demo_scenario import GUESTS, PLANTS, TANKS, TOPIC, Guest, PlantEvents, SendSchedule
from thinwire.demo.demo_subscriber import Witness
from thinwire.demo.view_model import SubscriberView, channel_of, phases_of, translator_row
from thinwire.ledger import Row, RowTally, to_document
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.topic_documents import SubscriptionDocument

NUMBERS = {p.name for p in building.schema().wire if p.kind == "number"}


def delivered(ordinal, plant=0, bound=0.5, off=0.0):
    """The event as a subscriber could be handed it, one of its values a little off."""
    truth = PlantEvents(plant).event(ordinal)
    bounds = {p.name: bound if p.name in NUMBERS else 0.0 for p in building.schema().wire}
    seen = truth | {"hot_tank_1": truth["hot_tank_1"] + off}
    return tw.Event(seen, bound=bounds, source=(truth["plant"], truth["controller"]), ordinal=ordinal)


def witness_of(*events, whole=True, guest=None):
    tally = RowTally("test")
    witness = Witness(guest or Guest("0.5", 0.5), tally)
    witness.begin(whole=whole)
    for event in events:
        witness.take(event)
    return witness, tally.row()


@given(
    st.integers(0, PLANTS - 1),
    st.integers(1, 1_000_000),
    st.floats(1, 2_000),
    st.integers(10**15, 2 * 10**15),
)
def test_an_event_is_due_at_its_instant_and_not_before(plant, ordinal, rate, start):
    pace = SendSchedule.of(rate, start)
    instant = pace.instant(plant, ordinal)
    assert pace.due(plant, instant) == ordinal
    assert pace.due(plant, instant - 1) == ordinal - 1


def test_a_plant_tells_what_the_sample_tells():
    plant = PlantEvents(2)
    truth = list(building.events(1_200, 1, first=2))
    assert [plant.event(ordinal) for ordinal in (1, 2, 499, 500, 501, 1_200)] == [
        truth[ordinal - 1] for ordinal in (1, 2, 499, 500, 501, 1_200)
    ]


def test_values_within_their_bound_are_counted_with_how_far_they_were_off():
    witness, row = witness_of(delivered(1), delivered(2, off=0.4), delivered(1, plant=1))
    assert (witness.checked, witness.broken, witness.lost, witness.early) == (3, 0, 0, 0)
    assert round(row.error_max, 6) == 0.8
    assert row.errors["hot_tank_1"].checked == 3


def test_a_value_beyond_its_bound_is_named():
    witness, row = witness_of(delivered(1), delivered(2, off=0.6))
    assert (witness.checked, witness.broken) == (2, 1)
    assert "hot_tank_1 of event 2 of karlsruhe-solar-cooling-01 is off by 0.6" in witness.breach
    assert row.error_max > 1


def test_an_exact_subscriber_takes_no_error_at_all():
    witness, row = witness_of(delivered(1, bound=0.0), delivered(2, bound=0.0, off=0.001), guest=Guest("0", 0.0))
    assert witness.broken == 1
    assert row.broken == 1


def test_a_wider_bound_is_early_until_the_tolerance_was_in_force_once():
    story = [delivered(1, bound=1.0, off=0.9), delivered(2), delivered(3, bound=1.0)]
    witness, row = witness_of(*story)
    assert (witness.early, witness.broken) == (1, 1)
    assert "may be off by 1, asked was 0.5" in witness.breach
    assert row.errors["hot_tank_1"].checked == 2


def test_an_early_event_beyond_its_own_bound_is_broken_too():
    witness, _ = witness_of(delivered(1, bound=1.0, off=1.2))
    assert (witness.early, witness.broken) == (1, 1)


def test_events_left_out_between_two_are_lost_and_the_truth_goes_on():
    witness, _ = witness_of(delivered(1), delivered(4))
    assert (witness.checked, witness.lost, witness.broken) == (2, 2, 0)


def test_events_that_come_again_are_broken():
    witness, _ = witness_of(delivered(1), delivered(2), delivered(2))
    assert (witness.checked, witness.broken) == (2, 1)
    assert "event 2 of karlsruhe-solar-cooling-01 came after event 2" in witness.breach


def test_who_was_there_from_the_start_is_owed_everything():
    witness, _ = witness_of(delivered(1), delivered(2))
    last = {PlantEvents(0).name: 2, PlantEvents(1).name: 5}
    assert not witness.complete(last)
    witness.expect(last)
    assert witness.lost == 5


def test_who_joins_late_is_owed_what_comes_after_its_first_event():
    witness, _ = witness_of(delivered(7), whole=False)
    assert witness.complete({PlantEvents(0).name: 7, PlantEvents(1).name: 5})
    assert not witness.complete({PlantEvents(0).name: 8})
    witness.expect({PlantEvents(0).name: 9, PlantEvents(1).name: 5})
    assert witness.lost == 2


CHANGES = Guest("changes", 0.5, emit="changes")


def held(ordinal):
    """How far any number of an event is from where it was in the first."""
    first, then = PlantEvents(0).event(1), PlantEvents(0).event(ordinal)
    return max(abs(then[name] - first[name]) for name in NUMBERS)


def first_beyond(tolerance):
    return next(ordinal for ordinal in range(2, 1_000) if held(ordinal) > tolerance)


def test_while_no_change_is_handed_out_the_last_one_must_stay_within_the_tolerance():
    change = first_beyond(0.5)
    witness, row = witness_of(delivered(1), delivered(change), guest=CHANGES)
    assert (witness.checked, witness.broken, witness.lost) == (change, 0, 0)
    assert 0 <= row.error_max <= 1


def test_a_change_that_is_not_handed_out_is_named():
    change = first_beyond(0.5)
    witness, row = witness_of(delivered(1), delivered(change + 1), guest=CHANGES)
    assert witness.broken == 1
    assert f"of event {change} of karlsruhe-solar-cooling-01, which was not handed out" in witness.breach
    assert row.error_max > 1


def test_a_change_that_never_comes_is_seen_at_the_end():
    change = first_beyond(0.5)
    witness, _ = witness_of(delivered(1), guest=CHANGES, whole=False)
    witness.expect({PlantEvents(0).name: change - 1})
    assert (witness.broken, witness.lost) == (0, 0)
    witness, _ = witness_of(delivered(1), guest=CHANGES, whole=False)
    witness.expect({PlantEvents(0).name: change})
    assert (witness.broken, witness.lost) == (1, 0)


def test_events_nobody_said_anything_about_are_lost_to_who_asks_for_changes():
    witness, _ = witness_of(delivered(1), guest=CHANGES)
    witness.expect({PlantEvents(0).name: 5, PlantEvents(1).name: 3}, covered=False)
    assert witness.lost == 7


def test_who_asks_for_changes_is_owed_the_first_event_too():
    witness, _ = witness_of(delivered(3), guest=CHANGES)
    assert witness.lost == 2


def test_a_projection_has_what_was_asked_for_and_no_more():
    tanks = Guest("tanks", 0.5, properties=TANKS)
    whole = delivered(1)
    part = whole.like(tanks.share_of(whole), {name: b for name, b in whole.bound.items() if tanks.wants(name)})
    witness, row = witness_of(part, guest=tanks)
    assert witness.broken == 0
    assert set(row.errors) == {*TANKS, "timestamp"}
    witness, _ = witness_of(whole, guest=tanks)
    assert witness.broken == 1
    assert "which was not asked for" in witness.breach


def test_a_timestamp_may_be_off_where_that_was_asked_for_and_nowhere_else():
    truth = delivered(1)
    assert truth["timestamp"] == "2018-07-02T05:00:00.003Z"
    late = truth.like({**truth, "timestamp": "2018-07-02T05:00:00.043Z"}, {**truth.bound, "timestamp": 0.05})
    witness, row = witness_of(late, guest=Guest("0.5", 0.5, time=0.05))
    assert (witness.broken, witness.early) == (0, 0)
    assert row.errors["timestamp"].worst == 0.04
    later = late.like({**late, "timestamp": "2018-07-02T05:00:00.054Z"})
    assert "timestamp of event 1" in witness_of(later, guest=Guest("0.5", 0.5, time=0.05))[0].breach
    assert witness_of(late, guest=Guest("0.5", 0.5))[0].early == 1


def test_every_guest_is_a_class_of_its_own_and_the_one_its_subscription_is_in():
    assert len({guest.class_id for guest in GUESTS}) == len(GUESTS) == 5
    for guest in GUESTS:
        asked = SubscriptionDocument(TOPIC, "another", **guest.asks, sources={}, since=7.0)
        assert DemandClass.of(asked).id == guest.class_id


def test_a_class_is_what_the_translator_tells_of_it_beside_what_its_subscriber_read():
    guest = GUESTS[1]
    counts = {"events": 100, "frames": 20, "data_bytes": 150, "key_bytes": 40, "control_bytes": 10}
    report = {"events": 120, "cpu": 0.012, "classes": {guest.class_id: {**counts, "log_bytes": 800}}}
    seat = SubscriberView(
        guest, 0.0, Row("r", TOPIC, "channel", guest.name, "subscriber", link_bytes=9_000), joined=True
    )
    channel = channel_of(seat, report, subscribers=1)
    assert (channel.name, channel.reads, channel.log_bytes, channel.link_bytes) == ("1 changes", "channel", 800, 9_000)
    assert channel.row.bytes_per_event == 2.0
    assert channel.less == 0.75
    assert translator_row("r", report).cpu_seconds == {"translator": 0.012}


def test_each_tolerance_in_force_has_a_row_of_its_own():
    async def story():
        async with tw.connect("memory://phases") as bus:
            await bus.register(building.schema())
            async with bus.subscribe(TOPIC, default_tolerance=1.0), bus.publisher(TOPIC, name="p") as out:
                phases, plant = Phases("test", out), PlantEvents(0)
                await _publish(out, phases, plant, range(1, 101))
                async with bus.subscribe(TOPIC, default_tolerance=0.0):
                    while phases.in_force != "0":
                        await asyncio.sleep(0.01)
                    await _publish(out, phases, plant, range(101, 151))
                    await out.flush()
                    return phases.rows(), out.counts, out.encoder.suppressed_events

    rows, counts, suppressed = asyncio.run(story())
    assert [(row.class_, row.events) for row in rows] == [("1", 100), ("0", 50)]
    assert all(row.raw_bytes > 80 * row.events and row.key_bytes > 0 for row in rows)
    assert sum(row.frame_bytes for row in rows) == counts.frame_bytes
    assert sum(row.suppressed_events for row in rows) == suppressed


async def _publish(out, phases, plant, ordinals):
    phases.look()
    for ordinal in ordinals:
        await out.publish(plant.event(ordinal))
        phases.published(100)


def test_phases_of_several_publishers_are_one():
    reports = []
    for events in (3, 4):
        rows = [RowTally("r", TOPIC, "publishers", name, "publisher") for name in ("1", "0.5")]
        for row in rows:
            row.count(events=events)
        reports.append({"rows": [to_document(row.row()) for row in rows]})
    assert [(phase.in_force, phase.row.events) for phase in phases_of(reports)] == [("1", 7), ("0.5", 7)]


STORY = """
import gc
from numba.core.dispatcher import Dispatcher
from thinwire.demo.demo_scenario import PlantEvents, rehearse
from thinwire_lab.streams.checked_stream import CheckedLink
from thinwire.codec import StreamConfig
from thinwire.codec import Demand
from thinwire.demo import building

def compiled():
    found = (thing for thing in gc.get_objects() if isinstance(thing, Dispatcher))
    return {(kernel.py_func.__name__, str(kind)) for kernel in found for kind in kernel.signatures}

rehearse()
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
def test_after_the_rehearsal_nothing_is_left_to_compile():
    """What is compiled in the middle of a show holds an event up for seconds."""
    source = str(Path(__file__).parents[2] / "src")
    told = subprocess.run(
        [sys.executable, "-c", STORY],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    kernels, _, left = told.stdout.strip().partition(" ")
    assert int(kernels) > 0, told.stderr
    assert left == "[]"
