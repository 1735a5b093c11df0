"""Demand classes: equal demands have one class, and channel tolerance plus log tolerance never exceeds the request."""

import math
from fractions import Fraction

import pytest
from demand_classes import selects
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, resolve
from thinwire.codec.demand import tolerance_of
from thinwire.codec.tolerance_vector import tick_size
from thinwire.errors import DemandError
from thinwire.schema import Property, Schema
from thinwire.topics.demand_class import DemandClass, check_subscription
from thinwire.topics.static_properties import factored
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.wire.partial_event import EncodingKind

PLANT = Schema(
    "plant",
    [
        Property("time", "timestamp", "header", form="iso:T3"),
        Property("site", "integer", "dimension"),
        Property("machine", "string", "dimension"),
        Property("t", "number", step="0.1", minimum=-20, maximum=130),
        Property("n", "integer", minimum=0, maximum=1000),
        Property("thirds", "number", step="1/3"),
        Property("f", "float", minimum=0, maximum=0.3),
        Property("power", "number", step="0.1", idle_band=2.5),
        Property("current", "number", step="0.5", idle_band=1),
        Property("place", "geo"),
        Property("scan", "array", step="0.25"),
        Property("state", "enum"),
        Property("health", "integer", domain="status"),
        Property("batch", "string", "header"),
        Property("serial", "string", static=True),
        Property("secret", "number", step=1, confidential=True),
    ],
)
LOG_SCHEMA = factored(PLANT)
amounts = st.sampled_from([0, 0.1, "0.25", 0.30000000000000004, 1, 2.5, 10, "1e-3", 1e-7, "33.3", 7e5])
percents = st.sampled_from(["0%", "0.1%", "1 %", "33.3%"])
NUMBERS = ("t", "n", "thirds", "f", "power", "current", "place", "scan", "time")
tolerances = st.fixed_dictionaries(
    {}, optional={name: amounts | percents if name in ("t", "n", "f") else amounts for name in NUMBERS}
)
defaults = st.sampled_from([0, 0.1, 0.5, 2.5, 1e-9])


def subscription(tolerance=None, **others):
    return SubscriptionDocument("plant", others.pop("identity", "a"), tolerance or {}, **others)


def of(tolerance=None, **others):
    return DemandClass.of(subscription(tolerance, **others))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of({"t": 0.50, "n": 3}), of({"n": "3.0", "t": "0.5"}, identity="b", durable="d", since=7.0)),
        (of({"t": "1%"}), of({"t": "1.0 %"})),
        (of(default_tolerance=2.0), of(default_tolerance=2)),
        (of(exact=("n", "t")), of(exact=("t", "n", "t"))),
        (of(exact=("t",)), of({"t": 0}, exact=("t",))),
        (of(exact=True), of({"t": "0", "n": "0%"}, exact=True)),
        (of(exact=False), of(exact=())),
        (of(properties=("n", "t")), of(properties=("t", "n"))),
        (of(sources={"machine": "m1"}), of(sources={"machine": ["m1", "m1"]})),
        (of(sources={"machine": ["m2", "m1"], "site": 1}), of(sources={"site": [1], "machine": ["m1", "m2"]})),
        (of(sources={}), of()),
    ],
)
def test_equal_demands_have_one_class(one, other):
    assert one == other
    assert (one.id, hash(one)) == (other.id, hash(other))
    assert len(one.id) == 16


def test_different_demands_have_different_classes():
    different = [
        of(),
        of({"t": 0}),
        of({"t": 0.5}),
        of({"t": "0.5%"}),
        of({"n": 0.5}),
        of(default_tolerance=0.5),
        of(exact=True),
        of(exact=("t",)),
        of(properties=("t",)),
        of(properties=()),
        of(sources={"machine": "1"}),
        of(sources={"machine": 1}),
        of(sources={"machine": []}),
        of(emit="changes"),
    ]
    assert len({one.id for one in different}) == len(different)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (subscription({"t": 0.5}, exact=True), "t"),
        (subscription({"t": "1%"}, exact=("t",)), "t"),
        (subscription({"t": 0.5}, properties=("n",)), "t"),
        (subscription({"t": "much"}), "t"),
        (subscription({"t": -1}), "t"),
        (subscription({"t": "1e999999999"}), "t"),
    ],
)
def test_a_contradictory_demand_is_refused_with_its_property(wrong, name):
    with pytest.raises(DemandError) as found:
        DemandClass.of(wrong).check()
    assert found.value.property == name
    with pytest.raises(DemandError):
        check_subscription(PLANT, wrong)


def test_a_subscription_is_checked_against_the_schema():
    selected = ("t", "n", "power", "serial")
    right = subscription({"t": 0.5, "power": 0}, exact=("n",), properties=selected, sources={"site": 1})
    check_subscription(PLANT, right)
    requests = ({"x": 1}, {"state": 1}, {"secret": 1}, {"thirds": "1%"})
    for wrong in (subscription(sources={"t": 1}), *map(subscription, requests)):
        with pytest.raises(DemandError):
            check_subscription(PLANT, wrong)
    with pytest.raises(DemandError):
        of(default_tolerance=0.5, exact=True).check()


def test_a_class_keeps_dimensions_headers_and_the_reference_to_static_properties():
    found = of(properties=("t", "serial")).schema(LOG_SCHEMA)
    assert [p.name for p in found] == ["time", "site", "machine", "t", "batch", "facts"]
    everything = tuple(p.name for p in LOG_SCHEMA)
    assert of().schema(LOG_SCHEMA) is of(properties=everything).schema(LOG_SCHEMA) is LOG_SCHEMA
    assert [p.name for p in of(properties=("later",)).schema(PLANT)] == ["time", "site", "machine", "batch"]


def test_sources_are_selected_by_dimensions():
    some = of(sources={"machine": ["m1", "m2"], "site": 1})
    assert selects(some, (1, "m2"), PLANT)
    assert not selects(some, (2, "m2"), PLANT)
    assert not selects(some, (1, "m3"), PLANT)
    assert of().source_filter(PLANT) is None
    assert not selects(of(sources={"machine": []}), (1, "m1"), PLANT)


def allowed(schema, p, one):
    """The largest error that a subscription accepts, including an idle band if it has no tolerance of its own."""
    if one.exact is True or (one.exact and p.name in one.exact):
        return Fraction(0)
    amount = tolerance_of(schema, p, one.demand)
    named = p.name in one.tolerance
    banded = p.idle_band is not None and not named
    return amount + Fraction(str(p.idle_band)) if banded else amount


@given(
    tolerances, defaults, st.sampled_from([False, True, ("t", "f", "power")]), tolerances, defaults, st.booleans(),
    st.sampled_from(["predict", "hold"]), st.sampled_from(["all", "changes"]),
)  # fmt: skip
def test_channel_tolerance_plus_log_tolerance_is_at_most_the_request(
    requested, default, exact, logged, logged_default, some, mode, emit
):
    if exact:
        requested = {name: value for name, value in requested.items() if exact is not True and name not in exact}
        default = 0 if exact is True else default
    one = subscription(requested, default_tolerance=default, exact=exact, emit=emit)
    check_subscription(PLANT, one)
    over = resolve(LOG_SCHEMA, Demand(logged, logged_default, mode=mode))
    demand_class = DemandClass.of(one)
    schema = LOG_SCHEMA.select(["time", "site", "machine", *NUMBERS[:6]]) if some else LOG_SCHEMA
    share = demand_class.channel_demand(schema, over)
    assert (share.mode, share.changes) == (("hold", True) if emit == "changes" else ("predict", False))
    rules = resolve(schema, share, over)
    for rule in rules.rules:
        p = rule.property
        off = next(before for before in over.rules if before.property is p)
        wanted = allowed(PLANT, p, one)
        assert rule.bound <= max(float(wanted), off.bound), p.name
        if rule.encoding is EncodingKind.TICK and p.idle_band is None:
            room = max(Fraction(0), wanted - off.tolerance * tick_size(p))
            assert rule.tolerance == room // tick_size(p), p.name


def shared(one, logged, mode="predict"):
    """Rules of the class's channel by property, for a log with the given tolerances."""
    over = resolve(LOG_SCHEMA, Demand(logged, mode=mode))
    rules = resolve(LOG_SCHEMA, one.channel_demand(LOG_SCHEMA, over), over).rules
    return {rule.property.name: rule for rule in rules}


def test_decimal_tolerances_are_subtracted_exactly():
    assert shared(of({"t": 0.3}), {"t": 0.1})["t"].tolerance == 2
    assert shared(of({"t": "0.35"}), {"t": "0.1"})["t"].tolerance == 2
    assert shared(of({"thirds": 1}), {"thirds": "0.34"})["thirds"].tolerance == 2
    assert shared(of({"t": "1%"}), {"t": 0.5})["t"].tolerance == 10


def test_a_log_coarser_than_requested_keeps_its_bound():
    rule = shared(of({"t": 0.5}), {"t": 2})["t"]
    assert (rule.tolerance, rule.bound) == (0, 2.0)


@pytest.mark.parametrize("logged", [0.1, 0.3, 1 / 3, 1e-17, 0.7])
def test_float_tolerances_add_up_to_at_most_the_request(logged):
    rule = shared(of({"f": 0.7}), {"f": logged})["f"]
    assert Fraction(rule.distance) + Fraction(logged) <= Fraction(0.7)
    assert rule.distance >= math.nextafter(math.nextafter(0.7 - logged, 0), 0) - 1e-16
    assert rule.bound <= 0.7


def test_the_tolerance_of_a_position_is_used_by_one_stage():
    assert shared(of({"place": 50}), {"place": 0})["place"].tolerance > 0
    assert shared(of({"place": 50}), {"place": 10})["place"].tolerance == 0


def test_an_idle_band_counts_once():
    idle, busy = of(default_tolerance=1), of({"power": 1})
    applied = shared(idle, {"power": 0.2, "current": 0})["power"]
    assert (applied.tolerance, applied.band, applied.bound) == (8, 25, 3.5)
    passed_on = shared(idle, {"current": 0})["power"]
    assert (passed_on.tolerance, passed_on.band, passed_on.bound) == (10, 0, 3.5)
    assert shared(busy, {"power": 0.2})["power"].band == 0
    # publishers with an older configuration still apply the idle band
    assert shared(busy, {})["power"].bound == 2.5


def test_a_stricter_class_does_not_widen_an_idle_band():
    rules = shared(of(default_tolerance=2), {"power": 0.5, "current": 1.5})
    assert (rules["power"].bound, rules["current"].bound) == (2.5 + 0.5 + 0.5, 1 + 1.5 + 0.5)


def test_the_log_serves_classes_that_request_nothing_coarser():
    demand = Demand({"t": 0.5, "power": 0, "current": 0}, default_tolerance=0.1)
    same = {"t": 0.5, "power": 0, "current": 0}
    assert of(same, default_tolerance=0.1).is_log_sufficient(LOG_SCHEMA, demand)
    assert of({**same, "t": 0.4}, default_tolerance=0.1).is_log_sufficient(LOG_SCHEMA, demand)
    assert of({**same, "t": 0.55}, default_tolerance=0.1).is_log_sufficient(LOG_SCHEMA, demand)  # less than a tick more
    assert of({**same, "place": 0}, default_tolerance=0.1, emit="changes").is_log_sufficient(LOG_SCHEMA, demand)
    assert of(exact=True).is_log_sufficient(LOG_SCHEMA, demand)
    assert not of({**same, "t": 0.6}, default_tolerance=0.1).is_log_sufficient(LOG_SCHEMA, demand)
    assert not of({"t": 0.5, "power": 0}, default_tolerance=0.1).is_log_sufficient(LOG_SCHEMA, demand)  # it may idle
    assert not of(same, default_tolerance=0.1, sources={"site": 1}).is_log_sufficient(LOG_SCHEMA, demand)
    assert not of(default_tolerance=0.1, properties=("n",)).is_log_sufficient(LOG_SCHEMA, demand)
    assert of({"t": 50}, properties=("t",)).is_log_sufficient(LOG_SCHEMA, Demand(min_interval=5))
