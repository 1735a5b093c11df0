"""The tolerance budget satisfies every subscription and is not stricter than needed."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, resolve
from thinwire.codec.demand import tolerance_of
from thinwire.codec.tolerance_vector import write_tolerance
from thinwire.errors import DemandError
from thinwire.schema import Property, Schema
from thinwire.topics.demand_class import check_subscription
from thinwire.topics.tolerance_budget import budget, budget_of_demand, nearest_budget
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import Settings

SCHEMA = Schema(
    "plant",
    [
        Property("time", "timestamp", "header", form="iso:T0"),
        Property("machine", "string", "dimension"),
        Property("t", "number", step="0.01", minimum=-20, maximum=130),
        Property("n", "integer", minimum=0, maximum=1000),
        Property("f", "float", minimum=0, maximum=0.3),
        Property("power", "number", step="0.1", idle_band=2.5, minimum=0, maximum=100),
        Property("place", "geo"),
        Property("state", "enum"),
        Property("health", "integer", domain="status"),
        Property("serial", "string", static=True),
        Property("secret", "number", step=1, confidential=True),
    ],
)
RANGED = ("t", "n", "f", "power")
numbers = st.sampled_from([0, 1, 0.5, "0.25", 2.5, 10, 1e-7, "3e2", 0.1, 0.30000000000000004])
percents = st.sampled_from(["1%", "0.1%", "33.3%", "0%", "1e-3 %"])
tolerances = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(RANGED, numbers | percents) | {"place": numbers, "time": numbers, "state": st.just(0)},
)
names = st.sampled_from([*RANGED, "place", "state"])


@st.composite
def subscriptions(draw, identity):
    tolerance = draw(tolerances)
    exact = draw(st.just(False) | st.booleans() | st.lists(names, max_size=2).map(tuple))
    only = draw(st.none() | st.lists(names, max_size=4).map(tuple))
    return SubscriptionDocument("plant", identity, tolerance, draw(st.sampled_from([0, 0.1, 1, 2.5])), exact, only)


groups = st.integers(0, 5).flatmap(lambda count: st.tuples(*(subscriptions(f"s{i}") for i in range(count))))
settings = st.builds(Settings, retain=st.booleans(), default_tolerance=st.none() | st.sampled_from([0, 0.5]))


def bounds(demand):
    return resolve(SCHEMA, demand).bounds


def bounds_alone(document):
    """The bounds of a subscription that is the only one."""
    names = (p.name for p in SCHEMA.wire) if document.exact is True else document.exact or ()
    return bounds(Demand({**document.tolerance, **dict.fromkeys(names, 0)}, document.default_tolerance))


def selected(document):
    sent = [p.name for p in SCHEMA.wire if not p.static]
    return [name for name in sent if document.properties is None or name in document.properties]


@given(groups, settings)
def test_bounds_are_at_most_those_of_each_subscription_alone(group, owner):
    found = bounds(budget(SCHEMA, group, owner).demand(SCHEMA, owner))
    for document in group:
        alone = bounds_alone(document)
        assert all(found[name] <= alone[name] for name in selected(document))


@given(groups)
def test_the_budget_is_the_smallest_requested_tolerance(group):
    found = budget(SCHEMA, group)
    assert found.wanted == bool(group)
    for name, amount in found.amounts.items():
        requested = {}
        for document in group:
            strict = document.is_exact(name)
            requested[document.identity] = (
                Fraction(0) if strict else tolerance_of(SCHEMA, SCHEMA[name], document.demand)
            )
        selecting = [requested[document.identity] for document in group if name in selected(document)]
        assert all(amount <= one for one in selecting)
        assert amount == (min(selecting) if selecting else max(requested.values(), default=0))


@given(groups, settings)
def test_the_demand_of_publishers_restores_the_budget(group, owner):
    decided = budget(SCHEMA, group, owner)
    restored = budget_of_demand(SCHEMA, decided.demand(SCHEMA, owner), decided.wanted)
    for name, amount in decided.amounts.items():
        assert restored.amounts[name] == (decided.default if name in decided.idle else amount)
    assert restored.idle == decided.idle
    assert nearest_budget(restored, decided, decided).demand(SCHEMA, owner) == decided.demand(SCHEMA, owner)


@given(groups, groups, groups)
def test_nearest_budget_satisfies_present_subscriptions_and_is_stable(now, removed, before):
    needed, held = budget(SCHEMA, now), budget(SCHEMA, [*now, *removed])
    current = budget_of_demand(SCHEMA, budget(SCHEMA, before).demand(SCHEMA, Settings()), bool(before))
    chosen = nearest_budget(current, needed, held)
    demand = chosen.demand(SCHEMA, Settings())
    found = bounds(demand)
    assert all(found[name] <= bounds_alone(document)[name] for document in now for name in selected(document))
    again = nearest_budget(budget_of_demand(SCHEMA, demand, chosen.wanted), needed, held)
    assert again.demand(SCHEMA, Settings()) == demand
    assert chosen.wanted == (bool(now) or (bool(now or removed) and bool(before)))


@given(st.fractions(min_value=0, max_value=10**30).filter(bool) | st.decimals(0, 10**9, places=25).map(Fraction))
def test_stored_tolerances_are_exact_or_stricter(amount):
    shown = Fraction(str(write_tolerance(amount)))
    assert shown <= amount
    digits = amount.denominator
    for prime in (2, 5):
        while digits % prime == 0:
            digits //= prime
    short = digits == 1 and len(str(int(amount * 10**30))) <= 40 and (amount * 10**30).denominator == 1
    assert shown == amount or not short
    assert amount - shown <= amount / 10**38


@pytest.mark.parametrize("tolerance", ["1e999", "1e-999", 5e-324, 10**39])
def test_extreme_tolerances_give_a_valid_demand(tolerance):
    found = budget(SCHEMA, [SubscriptionDocument("plant", "a", dict.fromkeys(("t", "f", "place"), tolerance))])
    resolve(SCHEMA, found.demand(SCHEMA, Settings()))


def test_an_idle_band_applies_without_a_tolerance_for_the_property():
    easy = SubscriptionDocument("plant", "easy", {}, 1)
    strict = SubscriptionDocument("plant", "strict", {"power": 1})
    assert bounds(budget(SCHEMA, [easy]).demand(SCHEMA, Settings()))["power"] == 3.5
    assert bounds(budget(SCHEMA, [easy, strict]).demand(SCHEMA, Settings()))["power"] == 1
    assert bounds(Demand({}, 1))["power"] == 3.5


def test_a_retained_log_is_exact_without_subscriptions_unless_its_settings_state_a_tolerance():
    requests = [SubscriptionDocument("plant", "a", {}, 2)]
    assert budget(SCHEMA, [], Settings(retain=True)).amounts["t"] == 0
    assert budget(SCHEMA, requests, Settings(retain=True)).amounts["t"] == 2
    owner = Settings(retain=True, default_tolerance=0.5)
    assert budget(SCHEMA, requests, owner).amounts["t"] == Fraction(1, 2)
    assert budget(SCHEMA, [], owner).wanted


def test_a_request_that_a_newer_schema_cannot_honour_counts_as_exact_and_is_reported():
    newer = Schema("plant", [Property("t", "number", step="0.01"), Property("n", "integer")], version=2)
    requests = [
        SubscriptionDocument("plant", "a", {"t": "1%", "removed": 1, "n": 5}),
        SubscriptionDocument("plant", "b", {}, 9),
    ]
    found = budget(newer, requests)
    assert (found.amounts["t"], found.amounts["n"]) == (0, 5)
    assert len(found.problems) == 2
    assert all("subscription.plant.a" in sentence for sentence in found.problems)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tolerance": {"x": 1}}, "x"),
        ({"tolerance": {"t": "five"}}, "t"),
        ({"tolerance": {"t": -1}}, "t"),
        ({"tolerance": {"place": "1%"}}, "place"),
        ({"tolerance": {"state": 1}}, "state"),
        ({"tolerance": {"health": 1}}, "health"),
        ({"tolerance": {"secret": 1}}, "secret"),
        ({"tolerance": {"t": 1}, "exact": True}, "t"),
        ({"tolerance": {"t": 1}, "exact": ["t"]}, "t"),
        ({"tolerance": {"t": 1}, "properties": ["n"]}, "t"),
        ({"exact": ["x"]}, "x"),
        ({"properties": ["x"]}, "x"),
        ({"sources": {"t": 5}}, "t"),
    ],
)
def test_a_subscription_that_cannot_be_honoured_is_refused_with_its_property(fields, name):
    with pytest.raises(DemandError) as refused:
        check_subscription(SCHEMA, SubscriptionDocument("plant", "a", **fields))
    assert refused.value.property == name


def test_exact_excludes_a_default_tolerance():
    with pytest.raises(DemandError, match="exact"):
        check_subscription(SCHEMA, SubscriptionDocument("plant", "a", default_tolerance=1, exact=True))


@given(subscriptions("a"))
def test_a_valid_subscription_has_no_problems(document):
    try:
        check_subscription(SCHEMA, document)
    except DemandError:
        return
    assert budget(SCHEMA, [document]).problems == ()
