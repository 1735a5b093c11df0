"""Rules of a schema and a demand: precedence, units, and when a value is sent."""

import struct
from fractions import Fraction

import pytest
from event_strategies import schemas
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, Reducer, resolve, rules
from thinwire.codec.predictors import by_name, names
from thinwire.codec.predictors.arithmetic import FINE, LAST, LINEAR, SEASONAL, TREND
from thinwire.errors import CorruptFrame, DemandError
from thinwire.schema import Property, Schema
from thinwire.wire.partial_event import PartialEvent

TIME = Property("time", "timestamp", "header", form="iso:T3Z")
POWER = Property("power", "number", step="0.5", idle_band=2, minimum=0, maximum=1000)
HEAT = Property("heat", "number", step="0.1", minimum=-10, maximum=40)
STATUS = Property("status", "integer", domain="status")
PLACE = Property("place", "geo")
LEVEL = Property("level", "float")
SCAN = Property("scan", "array", step="0.2")
FAN = Property("fan", "boolean")
COUNT = Property("count", "integer", period=5)
LOOSE = {"default_tolerance": 3}

PRECEDENCE = [
    # property, demand, tolerance in ticks, idle band in ticks, predictor
    ("default: exact, and auto starts with the last value", HEAT, {}, 0, 0, LAST),
    ("default tolerance of measurements", HEAT, LOOSE, 30, 0, LAST),
    ("type rule: a flag has none", FAN, LOOSE, 0, 0, LAST),
    ("type rule: a header has none", TIME, LOOSE, 0, 0, TREND),
    ("type rule: an element counts its own steps", SCAN, LOOSE, 15, 0, LAST),
    ("domain rule before default: status never varies", STATUS, LOOSE, 0, 0, LAST),
    ("domain rule before default: idle power", POWER, {}, 0, 4, LAST),
    ("domain rule beside default: idle power", POWER, LOOSE, 6, 4, LAST),
    ("domain rule before default: timestamps follow their cadence", TIME, {"predictor": "last"}, 0, 0, TREND),
    ("domain rule: positions are judged by distance", PLACE, LOOSE, 268, 0, LAST),
    ("subscription before domain rule: power", POWER, {"tolerance": {"power": 0}}, 0, 0, LAST),
    ("subscription before domain rule: time", TIME, {"predictor": {"time": "linear"}}, 0, 0, LINEAR),
    ("subscription before domain rule: seconds", TIME, {"tolerance": {"time": 0.5}}, 500, 0, TREND),
    ("subscription before default", HEAT, {"tolerance": {"heat": 1}, **LOOSE}, 10, 0, LAST),
    ("subscription: percent of the range", HEAT, {"tolerance": {"heat": "1%"}}, 5, 0, LAST),
    ("subscription: rounded down to whole ticks", HEAT, {"tolerance": {"heat": 0.19}}, 1, 0, LAST),
    ("subscription: one predictor for all", COUNT, {"predictor": "linear"}, 0, 0, LINEAR),
    ("subscription: a predictor for one", COUNT, {"predictor": {"count": "seasonal"}}, 0, 0, SEASONAL),
    (
        "mode before predictor: hold is the last value, exactly",
        COUNT,
        {"predictor": "linear", "mode": "hold"},
        0,
        0,
        16,
    ),
]


@pytest.mark.parametrize(
    ("p", "requested", "ticks", "band", "mode"), [case[1:] for case in PRECEDENCE], ids=[c[0] for c in PRECEDENCE]
)
def test_subscription_then_domain_rule_then_type_rule_then_default(p, requested, ticks, band, mode):
    schema = Schema("s", [TIME, POWER, HEAT, STATUS, PLACE, LEVEL, SCAN, FAN, COUNT])
    rule = next(rule for rule in resolve(schema, Demand(**requested)).rules if rule.property is p)
    assert (rule.tolerance, rule.band, rule.mode) == (ticks, band, mode)


def test_a_float_has_a_distance():
    (rule,) = resolve(Schema("s", [LEVEL]), Demand(default_tolerance=0.25)).rules
    assert (rule.distance, rule.bound) == (0.25, 0.25)


def test_hold_sends_exact_values_and_predict_bins():
    schema = Schema("s", [HEAT])
    predict, hold = (resolve(schema, Demand(default_tolerance=1, mode=mode)).rules[0] for mode in ("predict", "hold"))
    assert (predict.half, hold.half, hold.mode & FINE, hold.auto) == (10, 0, FINE, False)


@pytest.mark.parametrize("mode", ["predict", "hold"])
@pytest.mark.parametrize("tolerance", [0, 3])
def test_a_value_is_sent_when_its_error_is_above_the_tolerance_not_at_it(tolerance, mode):
    schema = Schema("s", [Property("n", "integer")])
    demand = Demand(tolerance={"n": tolerance}, mode=mode, predictor="last")
    for error, sent in (
        (0, False),
        (tolerance, False),
        (-tolerance, False),
        (tolerance + 1, True),
        (-tolerance - 1, True),
    ):
        reducer = Reducer(resolve(schema, demand))
        reducer.reduce({"n": 100})
        assert isinstance(reducer.reduce({"n": 100 + error}), PartialEvent) == sent


def test_percentages_are_of_the_declared_range_not_of_the_value():
    rule = resolve(Schema("s", [HEAT]), Demand(tolerance={"heat": "2 %"})).rules[0]
    assert rule.bound == 1.0


@given(schemas(), st.sampled_from([0, 0.5, 1e9, 1e300]), st.sampled_from(["predict", "hold"]))
def test_rules_round_trip(schema, tolerance, mode):
    log_rules = resolve(schema, Demand(default_tolerance=tolerance, mode=mode))
    read = rules.decode(log_rules.encode(), schema)
    assert read.encode() == log_rules.encode()
    assert read.bounds == log_rules.bounds
    assert all(
        bound <= tolerance + (p.idle_band or 0) for p, bound in zip(schema.wire, log_rules.bounds.values(), strict=True)
    )


def test_every_predictor_has_a_name_a_docstring_and_a_description():
    for name in names():
        predictor = by_name(name, period=4)
        assert predictor.name == name
        assert type(predictor).__doc__
        assert 0 <= predictor.coefficients < 1 << 27


@given(schemas(), st.sampled_from([0, 0.5, 1e9]), st.sampled_from([0, 0.5, 3]), st.booleans())
def test_rules_over_others_round_trip_and_add_up(schema, before, tolerance, changes):
    demand = Demand(default_tolerance=tolerance, mode="hold" if changes else "predict", changes=changes)
    log_rules = resolve(schema, Demand(default_tolerance=before))
    over = resolve(schema, demand, over=log_rules)
    read = rules.decode(over.encode(), schema)
    assert (read.encode(), read.changes, read.bounds) == (over.encode(), changes, over.bounds)
    assert read.suppressed_bounds == over.suppressed_bounds
    for p, bound in over.bounds.items():
        assert log_rules.bounds[p] <= bound <= before + tolerance + (schema[p].idle_band or 0)
    if not any(log_rules.bounds.values()):
        assert over.encode() == resolve(schema, demand).encode()


def test_a_float_over_another_stays_within_its_bound():
    schema = Schema("s", [LEVEL])
    for p in range(1, 30):
        for c in range(1, 30):
            log_rules = resolve(schema, Demand(default_tolerance=p / 100))
            (rule,) = resolve(schema, Demand(default_tolerance=c / 100), over=log_rules).rules
            assert Fraction(rule.distance) + Fraction(rule.upstream) <= Fraction(rule.bound)
            assert rule.bound == (p + c) / 100


def test_an_idle_band_counts_once():
    schema = Schema("s", [POWER])
    log_rules = resolve(schema, Demand(default_tolerance=1))
    (rule,) = resolve(schema, Demand(default_tolerance=0.5), over=log_rules).rules
    assert (rule.tolerance, rule.band, rule.upstream, rule.bound) == (1, 0, 6, 3.5)
    (rule,) = resolve(schema, Demand(), over=resolve(schema, Demand(tolerance={"power": 1}))).rules
    assert (rule.tolerance, rule.band, rule.upstream, rule.bound) == (0, 4, 2, 3)


def test_tolerances_of_positions_do_not_add_up():
    schema = Schema("s", [PLACE])
    exact, loose = (resolve(schema, Demand(default_tolerance=metres)) for metres in (0, 3))
    assert resolve(schema, Demand(default_tolerance=3), over=exact).bounds == loose.bounds
    assert resolve(schema, Demand(default_tolerance=3), over=loose).bounds == loose.bounds


def test_rules_over_another_kind_are_rejected():
    log_rules = resolve(Schema("s", [Property("x", "number", step="0.1")]), Demand())
    with pytest.raises(DemandError, match="another kind"):
        resolve(Schema("s", [Property("x", "number", step="0.2")]), Demand(), over=log_rules)


@pytest.mark.parametrize("body", ["0800", "0400000000", "0400000000" + "ff" * 8 + "7f"])
def test_rules_with_unknown_flags_or_cut_off_are_rejected(body):
    with pytest.raises(CorruptFrame):
        rules.decode(bytes.fromhex(body), Schema("s", [HEAT]))


@pytest.mark.parametrize("upstream", [float("nan"), float("inf"), -1.0])
def test_an_upstream_bound_that_is_not_a_number_is_rejected(upstream):
    with pytest.raises(CorruptFrame):
        rules.decode(b"\x04\x00" + struct.pack(">2d", 0.5, upstream), Schema("s", [LEVEL]))
