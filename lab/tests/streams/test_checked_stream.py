"""The guarantee checker detects every kind of violation."""

import pytest

from thinwire.codec import Demand, StreamConfig
from thinwire.errors import GuaranteeViolated
from thinwire.ledger import RowTally
from thinwire.schema import Event, Property, Schema
from thinwire.testing.guarantee_checker import GuaranteeChecker
from thinwire_lab.streams.checked_stream import CheckedLink, seconds_of

ROOMS = Schema(
    "rooms",
    [
        Property("room", "string", "dimension"),
        Property("t", "number", step="0.1"),
        Property("mode", "enum", members=["on", "off"]),
    ],
)
ACTUAL = {"room": "11.1", "t": 20.5, "mode": "on"}


def delivered(values, *, bound=0.5, ordinal=1, source=("11.1",)):
    return Event({**ACTUAL, **values}, bound={"t": bound, "mode": 0.0}, source=source, ordinal=ordinal)


@pytest.fixture
def checker():
    checker = GuaranteeChecker(ROOMS, Demand(default_tolerance=0.5))
    checker.sent(ACTUAL)
    return checker


@pytest.mark.parametrize("heat", [20.5, 20.0, 21.0])
def test_values_within_the_bound_are_accepted(checker, heat):
    checker.delivered(delivered({"t": heat}))
    assert checker.is_guarantee_met
    assert checker.worst == pytest.approx(abs(heat - 20.5) / 0.5)


@pytest.mark.parametrize(
    "event",
    [
        delivered({"t": 21.1}),
        delivered({"t": None}),
        delivered({"mode": "off"}),
        delivered({}, ordinal=2),
        delivered({}, source=("11.2",)),
        delivered({"t": 20.6}, bound=None),
        delivered({"t": 20.6}, bound=0.6),
    ],
    ids=["too far", "absent", "another text", "one skipped", "never published", "no bound", "bound above tolerance"],
)
def test_every_violation_is_detected(checker, event):
    checker.delivered(event)
    assert checker.broken == 1
    with pytest.raises(GuaranteeViolated, match="broken=1"):
        checker.require()


def test_events_that_never_arrive_are_missing(checker):
    assert checker.missing == 1
    assert not checker.is_guarantee_met


def test_a_tally_includes_every_error():
    tally = RowTally("run", role="subscriber")
    checker = GuaranteeChecker(ROOMS, Demand(default_tolerance=0.5), tally)
    checker.sent(ACTUAL)
    checker.delivered(delivered({"t": 20.9}))
    row = tally.row()
    assert row.error_max == pytest.approx(0.8)
    assert row.broken == 0


def test_heartbeats_of_a_quiet_hour_are_counted():
    busy, quiet = (CheckedLink(ROOMS, StreamConfig(max_silence=10, key_frame_interval=600), start=0.0) for _ in "ab")
    for link, pause in ((busy, 1.0), (quiet, 3600.0)):
        for number in range(3):
            link.publish(ACTUAL, now=number * pause)
        link.close()
        assert link.checker.is_guarantee_met
        assert link.checker.checked == 3
    assert quiet.counts.frames > busy.counts.frames + 2 * 350
    assert quiet.counts.data_bytes == busy.counts.data_bytes


def test_time_is_read_from_the_events():
    stamped = Schema("s", [Property("at", "timestamp", "header", form="iso: 0"), Property("t", "number", step="0.1")])
    assert seconds_of(stamped)({"at": "1970-01-02 00:00:01"}) == 86_401


def test_switches_of_auto_are_counted():
    ramp = [{**ACTUAL, "t": round(20 + 3.7 * i, 1)} for i in range(300)]
    links = {
        name: CheckedLink(ROOMS, StreamConfig(demand=Demand(predictor=name)), start=0.0) for name in ("last", "auto")
    }
    for link in links.values():
        for event in ramp:
            link.publish(event, now=0.0)
        link.close()
        assert link.checker.is_guarantee_met
    assert links["last"].switches == 0
    assert links["auto"].switches > 0
    assert links["auto"].counts.frame_bytes < links["last"].counts.frame_bytes
