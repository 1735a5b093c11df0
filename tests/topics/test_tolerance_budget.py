"""The budget keeps the promise made to everybody, and no more than that."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, resolve
from thinwire.codec.demand import tolerance_of
from thinwire.errors import DemandError
from thinwire.schema import Property, Schema
from thinwire.topics.tolerance_budget import between, budget, check_subscription, of_demand, written
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
    asked = draw(tolerances)
    exact = draw(st.just(False) | st.booleans() | st.lists(names, max_size=2).map(tuple))
    only = draw(st.none() | st.lists(names, max_size=4).map(tuple))
    return SubscriptionDocument("plant", identity, asked, draw(st.sampled_from([0, 0.1, 1, 2.5])), exact, only)


crowds = st.integers(0, 5).flatmap(lambda count: st.tuples(*(subscriptions(f"s{i}") for i in range(count))))
settings = st.builds(Settings, retain=st.booleans(), default_tolerance=st.none() | st.sampled_from([0, 0.5]))


def bounds(demand):
    return resolve(SCHEMA, demand).bounds


def alone(asked):
    """What this subscriber would be promised if there were nobody else."""
    exact = (
        dict.fromkeys((p.name for p in SCHEMA.wire), 0) if asked.exact is True else dict.fromkeys(asked.exact or (), 0)
    )
    return bounds(Demand({**asked.tolerance, **exact}, asked.default_tolerance))


def selected(asked):
    travelling = [p.name for p in SCHEMA.wire if not p.static]
    return [name for name in travelling if asked.properties is None or name in asked.properties]


@given(crowds, settings)
def test_nobody_is_promised_less_than_alone(crowd, owner):
    promised = bounds(budget(SCHEMA, crowd, owner).demand(SCHEMA, owner))
    for asked in crowd:
        wish = alone(asked)
        for name in selected(asked):
            assert promised[name] <= wish[name], name


@given(crowds)
def test_the_amount_is_the_smallest_asked(crowd):
    found = budget(SCHEMA, crowd)
    assert found.wanted == bool(crowd)
    for name, amount in found.amounts.items():
        asked = {}
        for one in crowd:
            strict = one.exact is True or (one.exact and name in one.exact)
            asked[one.identity] = Fraction(0) if strict else tolerance_of(SCHEMA, SCHEMA[name], one.demand)
        heard = [asked[one.identity] for one in crowd if name in selected(one)]
        assert amount == (min(heard) if heard else max(asked.values(), default=0))


@given(crowds, settings)
def test_what_publishers_are_told_is_what_was_decided(crowd, owner):
    decided = budget(SCHEMA, crowd, owner)
    told = of_demand(SCHEMA, decided.demand(SCHEMA, owner), decided.wanted)
    for name, amount in decided.amounts.items():
        assert told.amounts[name] == (decided.default if name in decided.idle else amount)
    assert told.idle == decided.idle
    assert between(told, decided, decided).demand(SCHEMA, owner) == decided.demand(SCHEMA, owner)


@given(crowds, crowds, crowds)
def test_between_keeps_promises_and_changes_little(now, left, before):
    needed, held = budget(SCHEMA, now), budget(SCHEMA, [*now, *left])
    told = of_demand(SCHEMA, budget(SCHEMA, before).demand(SCHEMA, Settings()), bool(before))
    chosen = between(told, needed, held)
    promised = bounds(chosen.demand(SCHEMA, Settings()))
    assert all(promised[name] <= alone(asked)[name] for asked in now for name in selected(asked))
    assert between(of_demand(SCHEMA, chosen.demand(SCHEMA, Settings()), chosen.wanted), needed, held).demand(
        SCHEMA, Settings()
    ) == chosen.demand(SCHEMA, Settings())
    assert chosen.wanted == (bool(now) or (bool(now or left) and bool(before)))


@given(st.fractions(min_value=0, max_value=10**30).filter(bool) | st.decimals(0, 10**9, places=25).map(Fraction))
def test_amounts_are_written_exactly_or_stricter(amount):
    shown = Fraction(str(written(amount)))
    assert shown <= amount
    digits = amount.denominator
    for prime in (2, 5):
        while digits % prime == 0:
            digits //= prime
    short = digits == 1 and len(str(int(amount * 10**30))) <= 40 and (amount * 10**30).denominator == 1
    assert shown == amount or not short
    assert amount - shown <= amount / 10**38


@pytest.mark.parametrize("asked", ["1e999", "1e-999", 5e-324, 10**39])
def test_extreme_tolerances_are_still_a_demand(asked):
    found = budget(SCHEMA, [SubscriptionDocument("plant", "a", {"t": asked, "f": asked, "place": asked})])
    resolve(SCHEMA, found.demand(SCHEMA, Settings()))


def test_an_idle_band_holds_as_long_as_nobody_names_the_property():
    easy = SubscriptionDocument("plant", "easy", {}, 1)
    strict = SubscriptionDocument("plant", "strict", {"power": 1})
    assert bounds(budget(SCHEMA, [easy]).demand(SCHEMA, Settings()))["power"] == 3.5
    assert bounds(budget(SCHEMA, [easy, strict]).demand(SCHEMA, Settings()))["power"] == 1
    assert bounds(Demand({}, 1))["power"] == 3.5


def test_a_retained_log_is_exact_while_nobody_asks_and_as_good_as_its_owner_says():
    asked = [SubscriptionDocument("plant", "a", {}, 2)]
    assert budget(SCHEMA, [], Settings(retain=True)).amounts["t"] == 0
    assert budget(SCHEMA, asked, Settings(retain=True)).amounts["t"] == 2
    owner = Settings(retain=True, default_tolerance=0.5)
    assert budget(SCHEMA, asked, owner).amounts["t"] == Fraction(1, 2)
    assert budget(SCHEMA, [], owner).wanted


def test_a_demand_that_lost_its_meaning_counts_as_exact_and_is_reported():
    newer = Schema("plant", [Property("t", "number", step="0.01"), Property("n", "integer")], version=2)
    asked = [
        SubscriptionDocument("plant", "a", {"t": "1%", "gone": 1, "n": 5}),
        SubscriptionDocument("plant", "b", {}, 9),
    ]
    found = budget(newer, asked)
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
def test_a_subscription_that_cannot_be_honoured_is_refused_by_name(fields, name):
    with pytest.raises(DemandError) as refused:
        check_subscription(SCHEMA, SubscriptionDocument("plant", "a", **fields))
    assert refused.value.property == name


def test_exact_and_a_default_tolerance_contradict_each_other():
    with pytest.raises(DemandError, match="exact"):
        check_subscription(SCHEMA, SubscriptionDocument("plant", "a", default_tolerance=1, exact=True))


@given(subscriptions("a"))
def test_what_was_checked_has_no_problems(asked):
    try:
        check_subscription(SCHEMA, asked)
    except DemandError:
        return
    assert budget(SCHEMA, [asked]).problems == ()
