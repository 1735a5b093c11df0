"""Tolerances are exact: minimum, difference and stored form."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec.tolerance_vector import (
    ToleranceVector,
    canonical_tolerance,
    in_ticks,
    parse_amount,
    read_tolerance,
    round_down,
    write_for_property,
    write_tolerance,
)
from thinwire.errors import DemandError
from thinwire.schema import Property, Schema
from thinwire.wire.partial_event import EncodingKind, encoding_kind_of

SCHEMA = Schema(
    "plant",
    [
        Property("t", "number", step="0.1", minimum=-20, maximum=130),
        Property("thirds", "number", step="1/3"),
        Property("n", "integer"),
        Property("f", "float", minimum=0, maximum=0.3),
        Property("place", "geo"),
        Property("time", "timestamp", "header", form="iso:T3"),
        Property("state", "enum"),
        Property("health", "integer", domain="status"),
    ],
)
amounts = st.fractions(0, 10**6, max_denominator=10**6) | st.decimals(0, 10**6, places=12).map(Fraction)
doubles = st.floats(0, 1e6).map(lambda value: Fraction(str(value)))
vectors = st.fixed_dictionaries({p.name: doubles if p.name == "f" else amounts for p in SCHEMA}).map(ToleranceVector)


@given(vectors, vectors, vectors)
def test_minimum_is_at_most_each_request_and_is_one_of_them(one, two, three):
    found = one.minimum(two).minimum(three)
    for name, amount in found.items():
        assert amount in (one[name], two[name], three[name])
        assert amount <= min(one[name], two[name], three[name])
    assert found == three.minimum(two.minimum(one))
    assert one.maximum(two).minimum(one) == one


@given(vectors, vectors)
def test_difference_plus_spent_is_at_most_the_request(requested, spent):
    remaining = requested.difference(spent, SCHEMA.properties)
    for p in SCHEMA:
        left = max(Fraction(0), remaining[p.name])
        kind = encoding_kind_of(p.kind)
        if kind is EncodingKind.FLOAT:
            total = float(Fraction(str(float(spent[p.name]))) + Fraction(str(float(left))))
            assert not left or total <= float(requested[p.name])
        elif kind is EncodingKind.GEO:
            assert left in (0, requested[p.name])
            assert not (left and spent[p.name])
        else:
            assert remaining[p.name] + spent[p.name] == requested[p.name]


@given(vectors)
def test_stored_tolerances_are_worth_the_same_ticks_and_never_more(vector):
    for p in SCHEMA:
        if encoding_kind_of(p.kind) is EncodingKind.TICK:
            stored = Fraction(str(write_for_property(p, vector[p.name])))
            assert in_ticks(p, stored) == in_ticks(p, vector[p.name])
        assert Fraction(str(write_tolerance(vector[p.name]))) <= vector[p.name]
        assert Fraction(str(round_down(vector[p.name]))) <= vector[p.name]


@given(amounts, st.booleans())
def test_the_canonical_form_is_stable_and_equal_for_equal_tolerances(amount, percentage):
    sign = "%" if percentage else ""
    text = f"{write_tolerance(amount)}{sign}"
    canonical = canonical_tolerance(text)
    assert canonical_tolerance(canonical) == canonical
    assert parse_amount(canonical) == parse_amount(text)
    if not percentage:
        assert canonical == canonical_tolerance(f"+{text}")


@pytest.mark.parametrize(
    ("name", "tolerance", "amount"),
    [
        ("t", "1%", Fraction(3, 2)),
        ("t", 0.1, Fraction(1, 10)),
        ("t", "1e-3", Fraction(1, 1000)),
        ("f", "33.3 %", Fraction("0.0999")),
        ("n", 0.30000000000000004, Fraction("0.30000000000000004")),
        ("state", 0, Fraction(0)),
    ],
)
def test_decimals_are_read_exactly(name, tolerance, amount):
    assert read_tolerance(SCHEMA[name], {name: tolerance}) == amount


def test_the_default_applies_to_measurements_only():
    read = ToleranceVector.read(SCHEMA.properties, {"n": 0}, default=0.5)
    assert {name for name, amount in read.items() if amount} == {"t", "thirds", "f", "place"}


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("t", "five"), ("t", -1), ("t", "1e999999999"), ("t", True), ("n", "1%"), ("state", 1), ("health", 1), ("t", "%")],
)
def test_invalid_tolerances_are_refused_with_their_property(name, tolerance):
    with pytest.raises(DemandError) as refused:
        read_tolerance(SCHEMA[name], {name: tolerance})
    assert refused.value.property == name
