"""Predicates: evaluation, equality of equivalent texts, and errors with their column."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.errors import DemandError, ExpressionError, ExpressionTooLarge, UnknownName
from thinwire.filters.where.predicate_index import PredicateIndex
from thinwire.filters.where.where_grammar import MAX_CONDITIONS, MAX_DEPTH, MAX_LENGTH, parse_where
from thinwire.schema import Property, Schema

NUMBERS = [-2.5, -1, 0, 0.1, 1, 3, 1e20]
TEXTS = ["", "EU", "E", "US", "it's", "a or b", "Ω", "a\ud7ff", "a\U0010ffff", "\U0010ffff"]
NOTHING = "no event can match"
TRADES = Schema(
    "trades",
    [
        Property("symbol", "string", "dimension"),
        Property("time", "timestamp", "header", form="iso:T0Z"),
        Property("price", "number", step="0.01"),
        Property("region", "enum", members=["EU", "US"], closed=True),
        Property("open", "boolean"),
        Property("place", "geo"),
        Property("owner", "string", confidential=True),
        Property("make", "string", static=True),
        Property("oil.level", "integer"),
    ],
)


def leaves():
    number = st.sampled_from(NUMBERS)
    text = st.sampled_from(TEXTS)
    signs = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.tuples(st.sampled_from("ab"), signs, number),
        st.tuples(st.just("c"), signs, text),
        st.tuples(st.just("c"), st.sampled_from(["starts with", "not starts with"]), text),
        st.tuples(st.just("d"), st.sampled_from(["=", "!="]), st.booleans()),
        st.tuples(
            st.sampled_from("ab"), st.sampled_from(["between", "not between"]), st.tuples(number, number).map(sorted)
        ),
        st.tuples(st.sampled_from("ab"), st.sampled_from(["in", "not in"]), st.lists(number, min_size=1, max_size=3)),
        st.tuples(st.just("c"), st.sampled_from(["in", "not in"]), st.lists(text, min_size=1, max_size=3)),
    )


def formulas():
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.tuples(st.just("not"), inner),
            st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
        ),
        max_leaves=6,
    )


def literal(value):
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def text_of(formula):
    if formula[0] == "not":
        return f"not ({text_of(formula[1])})"
    if formula[0] in ("and", "or"):
        return f" {formula[0]} ".join(f"({text_of(part)})" for part in formula[1])
    name, sign, value = formula
    if sign.endswith("between"):
        return f"{name} {sign} {literal(value[0])} and {literal(value[1])}"
    if sign.endswith("in"):
        return f"{name} {sign} ({', '.join(map(literal, value))})"
    return f"{name} {sign} {literal(value)}"


def evaluate(formula, event, positive=True):
    """Evaluate a formula on an event. A condition on an absent value is false, and so is its negation."""
    if formula[0] == "not":
        return evaluate(formula[1], event, not positive)
    if formula[0] in ("and", "or"):
        parts = [evaluate(part, event, positive) for part in formula[1]]
        return all(parts) if (formula[0] == "and") == positive else any(parts)
    name, sign, value = formula
    seen = event.get(name)
    return seen is not None and _compare(seen, sign, value) == positive


def _compare(seen, sign, value):
    answers = {
        "=": lambda: seen == value,
        "!=": lambda: seen != value,
        "<": lambda: seen < value,
        "<=": lambda: seen <= value,
        ">": lambda: seen > value,
        ">=": lambda: seen >= value,
        "between": lambda: value[0] <= seen <= value[1],
        "not between": lambda: not value[0] <= seen <= value[1],
        "in": lambda: seen in value,
        "not in": lambda: seen not in value,
        "starts with": lambda: seen.startswith(value),
        "not starts with": lambda: not seen.startswith(value),
    }
    return answers[sign]()


def parsed(formula):
    """The predicate of a formula; None where it is too large."""
    try:
        return parse_where(text_of(formula))
    except ExpressionTooLarge:
        return None
    except ExpressionError:
        return NOTHING


numbers = st.one_of(st.none(), st.sampled_from(NUMBERS), st.floats(-4, 4))
events = st.fixed_dictionaries(
    {"a": numbers, "b": numbers, "d": st.one_of(st.none(), st.booleans())},
    optional={"c": st.one_of(st.none(), st.sampled_from(TEXTS), st.text(max_size=3))},
)


@settings(max_examples=80)
@given(formulas(), st.lists(events, min_size=1, max_size=12))
def test_a_predicate_matches_exactly_the_events_of_the_reference(formula, several):
    where = parsed(formula)
    expected = [evaluate(formula, event) for event in several]
    if where is None:
        return
    if where is NOTHING:
        assert not any(expected)
        return
    assert [where.matches(event) for event in several] == expected
    again = parse_where(where.canonical)
    assert again == where
    assert again.canonical == where.canonical
    assert [again.matches(event) for event in several] == expected
    assert pickle.loads(pickle.dumps(where.canonical)) == str(where)
    assert where.canonical.encode().decode() == where.canonical


@settings(max_examples=20)
@given(st.lists(formulas(), min_size=1, max_size=60), st.lists(events, min_size=1, max_size=30), st.data())
def test_an_index_finds_what_each_predicate_finds_alone(formulas, several, data):
    index, predicates = PredicateIndex(), {}
    for number, formula in enumerate(formulas):
        where = parsed(formula)
        if where is not None and where is not NOTHING:
            index.add(number, where)
            predicates[number] = where
    for _ in range(4):
        found = index.match(several)
        assert [sorted(who) for who in found] == [
            [number for number, where in predicates.items() if where.matches(event)] for event in several
        ]
        for number in data.draw(st.lists(st.sampled_from(sorted(predicates)), max_size=8)) if predicates else ():
            index.remove(number)
            predicates.pop(number, None)
    assert len(index) == len(predicates)


def test_many_predicates_of_one_kind_are_an_index_and_stay_right_while_some_come_and_go():
    index, wheres = PredicateIndex(), {}
    several = [{"x": k % 37 + 0.5, "y": k % 11, "region": ("EU", "US", "AF", None)[k % 4]} for k in range(100)]
    for turn in range(6):
        for k in range(40):
            low = (7 * k + turn) % 37
            text = f"x between {low} and {low + 3} and region in ('EU', '{'US' if k % 2 else 'ZZ'}')"
            wheres[turn, k] = parse_where(text)
            index.add((turn, k), wheres[turn, k])
        for k in range(0, 40, 3):
            index.remove((turn, k))
            del wheres[turn, k]
        for event, who in zip(several, index.match(several), strict=True):
            assert {*who} == {name for name, where in wheres.items() if where.matches(event)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("price between 10 and 20", "not (price < 10 or price > 20.0)"),
        ("region in ('US', 'EU')", "region = 'EU' or region = 'US'"),
        ("a = 1 and b = 2", "b == 2 AND a = 1.0"),
        ("a != 3", "a < 3 or a > 3"),
        ("a > 1 and (b = 1 or a > 1)", "a > 1"),
        ("ok = true", "not ok <> true"),
        ("symbol starts with 'AB'", "symbol >= 'AB' and symbol < 'AC'"),
        ("not (starts starts with 'A')", "\"starts\" NOT STARTS WITH 'A'"),
    ],
)
def test_equivalent_predicates_are_equal(one, other):
    assert parse_where(one) == parse_where(other)
    assert hash(parse_where(one)) == hash(parse_where(other))


@pytest.mark.parametrize(
    ("text", "detail", "column"),
    [
        ("", "the name of a property is expected", 1),
        ("price >", "a value is expected", 8),
        ("price > cheap", "a text needs single quotes", 9),
        ("price > 1 and", "the name of a property is expected", 14),
        ("price > 1 region = 'EU'", "'and', 'or' or the end is expected", 11),
        ("(price > 1", "this parenthesis is not closed", 1),
        ("price in 1", "'(' and a list of values", 10),
        ("symbol starts 'A'", "'with' is expected", 15),
        ("symbol starts with 3", "a text in single quotes is expected", 20),
        ("symbol like 'A%'", "a condition is expected: = != < <= > >=, between, in, starts with", 8),
        ("price between 2 and 1", "the range ends before it starts", 15),
        ("price > 1 and price = 'a'", "compared with a number before and with a text here", 23),
        ("open > true", "true and false have no order", 8),
        ("price > 1 && open = true", "write 'and'", 11),
        ("region = 'EU", "the quotes do not end", 10),
        ("price > 1e999", "a finite number is expected", 9),
        ("price > 2 and price < 1", "no event can match this", 1),
    ],
)
def test_an_invalid_text_is_rejected_with_its_column(text, detail, column):
    with pytest.raises(ExpressionError, match="bad expression") as caught:
        parse_where(text)
    assert detail in str(caught.value)
    assert caught.value.column == column
    drawn = str(caught.value).splitlines()[-1]
    assert drawn.index("^") == column - 1 + 4


def test_expressions_may_be_nested_up_to_the_limit():
    assert parse_where("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH) == parse_where("a = 1")
    assert parse_where("not " * MAX_DEPTH + "a = 1") == parse_where("a = 1")


def test_an_index_of_predicates_on_many_properties():
    index = PredicateIndex()
    for number in range(20):
        index.add(number, parse_where(" and ".join(f"p{k} < {number + k}" for k in range(80))))
    events = [{f"p{k}": k + 16.5 for k in range(80)}] * 20
    for _ in range(10):  # tested one by one at first, then by the index
        assert index.match(events) == [[17, 18, 19]] * 20


@pytest.mark.parametrize(
    "text",
    [
        "a" * (MAX_LENGTH + 1),
        "(" * (MAX_DEPTH + 1) + "a = 1" + ")" * (MAX_DEPTH + 1),
        "not " * (MAX_DEPTH + 1) + "a = 1",
        f"a in ({', '.join(map(str, range(MAX_CONDITIONS + 1)))})",
        " and ".join(f"(a{k} = 1 or b{k} = 1)" for k in range(8)),
        " and ".join(f"a{k} in (1, 2, 3, 4)" for k in range(6)),
    ],
)
def test_what_is_too_large_is_refused(text):
    with pytest.raises(ExpressionTooLarge, match="limit"):
        parse_where(text)


@pytest.mark.parametrize(
    ("text", "error", "detail", "column"),
    [
        ("symbol = 'A' and prise > 1", UnknownName, "no such property", 18),
        ("price = 'high'", ExpressionError, "price is of kind number: compare it with a number", 9),
        ("open = 1", ExpressionError, "compare it with true or false", 8),
        ("symbol = 3", ExpressionError, "compare it with a text in single quotes", 10),
        ("region = 'AF'", UnknownName, "no such member", 10),
        ("region < 'EU'", ExpressionError, "members of an enum have no order", 1),
        ("price starts with '1'", ExpressionError, "price is of kind number: compare it with a number", 19),
        ("time > 3", ExpressionError, "values of kind timestamp cannot be compared here", 1),
        ("place = 3", ExpressionError, "values of kind geo cannot be compared here", 1),
        ("owner = 'me'", ExpressionError, "a confidential property never leaves its publisher", 1),
        ("make = 'Acme'", ExpressionError, "a static property is stored once", 1),
    ],
)
def test_predicates_that_do_not_fit_the_schema_are_rejected_with_their_column(text, error, detail, column):
    with pytest.raises(error, match=detail) as caught:
        parse_where(text).check(TRADES)
    assert caught.value.column == column


def test_nested_values_are_found_and_what_is_of_another_kind_does_not_match():
    where = parse_where("oil.level >= 3")
    where.check(TRADES)
    seen = [{"oil": {"level": 3}}, {"oil": {"level": 2}}, {"oil": {}}, {"oil": 3}, {}, {"oil": {"level": "3"}}]
    assert [where.matches(event) for event in seen] == [True, False, False, False, False, False]
    index = PredicateIndex()
    for k in range(40):
        index.add(k, parse_where(f"oil.level >= {k}"))
    for _ in range(12):
        found = index.match(seen)
    assert [len(who) for who in found] == [4, 3, 0, 0, 0, 0]


def test_what_decides_has_no_tolerance():
    where = parse_where("price > 10")
    for nothing in (0, 0.0, "0.00", "0 %"):
        where.check_tolerances({"volume": 5, "price": nothing})
    with pytest.raises(DemandError, match="leave its tolerance out"):
        where.check_tolerances({"price": "1%"})
