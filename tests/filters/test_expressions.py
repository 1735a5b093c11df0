"""The language of watches: what is read, what is refused, and where the caret points."""

import pickle
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ExpressionError, ExpressionTooLarge, UnknownName
from thinwire.filters.composite.condition import Radius
from thinwire.filters.composite.condition_resolver import resolve
from thinwire.filters.composite.expression import And, Or, Term, Threshold, format_formula
from thinwire.filters.composite.watch_grammar import parse_watch
from thinwire.schema import Property, Schema

MARKET = Schema(
    "market",
    [
        Property("symbol", "string", "dimension"),
        Property("price", "number", step="0.01", minimum=0, maximum=1000),
        Property("volume", "integer"),
        Property("mean", "float"),
        Property("name", "string"),
        Property("secret", "number", step="0.1", confidential=True),
    ],
)
ROOMS = Schema(
    "building.rooms",
    [
        Property("room", "integer", "dimension"),
        Property("floor", "enum", "dimension", members=["one", "two"], closed=True),
        Property("t", "number", step="0.1"),
    ],
)
VIX = Schema("vix", [Property("value", "number", step="0.5"), Property("rooms.t", "integer")])
SCHEMAS = {"market": MARKET, "building.rooms": ROOMS, "vix": VIX}


def shapes(text):
    """An expression without thresholds: names and joints."""

    def of(node):
        return node.path if isinstance(node, Term) else (type(node).__name__, *map(of, node.parts))

    return of(parse_watch(text).root)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("a.x +- 1", "a.x"),
        ("a.x +- 1 and b.x +- 1 or c.x +- 1", ("Or", ("And", "a.x", "b.x"), "c.x")),
        ("a.x +- 1 and (b.x +- 1 or c.x +- 1)", ("And", "a.x", ("Or", "b.x", "c.x"))),
        ("((a.x±1))AND b.x+-1", ("And", "a.x", "b.x")),
        ("a.x\n  +/- 1\nOr\tb.x +- .5", ("Or", "a.x", "b.x")),
        ("order.and.x +- 1 or ore.x +- 1", ("Or", "order.and.x", "ore.x")),
        ('"my topic".x +- 1 and "and" +- 1', ("And", "my topic.x", "and")),
    ],
)
def test_and_binds_closer_than_or(text, shape):
    assert shapes(text) == shape


@pytest.mark.parametrize(
    ("text", "source", "behind"),
    [
        ("rooms[12].t +- 1", ((None, "12"),), "t"),
        ("rooms[room=12, floor = 3].t +- 1", (("room", "12"), ("floor", "3")), "t"),
        ("rooms['a, b'].oil.level +- 1", ((None, "a, b"),), "oil.level"),
        ('rooms["sensor id"=11.1]."the t" +- 1', (("sensor id", "11.1"),), "the t"),
        ("rooms[].t +- 1", (), "t"),
        ("rooms.t +- 1", None, None),
    ],
)
def test_sources_are_named_by_value_or_by_dimension(text, source, behind):
    term = parse_watch(text).root
    assert (term.source, term.property) == (source, behind)


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("0.50", Threshold(Fraction(1, 2))),
        ("1e-3", Threshold(Fraction(1, 1000))),
        ("1e+3", Threshold(Fraction(1000))),
        ("1%", Threshold(Fraction(1, 100), "value")),
        ("2.5 % of range", Threshold(Fraction(1, 40), "range")),
    ],
)
def test_a_threshold_is_an_amount_or_a_share(text, threshold):
    assert parse_watch(f"a.x +- {text}").root.threshold == threshold


@pytest.mark.parametrize(
    ("text", "column", "message_part"),
    [
        ("", 1, "a name such as"),
        ("a.x", 4, "'+-' and a threshold is expected"),
        ("a.x +- ", 8, "a number is expected"),
        ("a.x +- much", 8, "a number is expected"),
        ("a.x +- 1 b.x +- 2", 10, "'and', 'or' or the end"),
        ("a.x +- 1 and", 13, "a name such as"),
        ("or a.x +- 1", 1, "a name such as"),
        ("(a.x +- 1", 1, "not closed"),
        ("a.x +- 1)", 9, "'and', 'or' or the end"),
        ("a[1.x +- 1", 7, "',' or ']'"),
        ("a[1]x +- 1", 5, "'.' and a property"),
        ("a[x=1, 2].y +- 1", 8, "write name=value"),
        ("a[=1].y +- 1", 3, "a value of a dimension"),
        ("a..x +- 1", 1, "before or after a dot"),
        ("a.x +- 1 & b.x +- 1", 10, "write 'and'"),
        ("a.x +- 1 or 'b.x +- 1", 13, "quotes do not end"),
        ("a.x +- 1% of value", 14, "'range' is expected"),
    ],
)
def test_a_syntax_error_points_at_its_column(text, column, message_part):
    with pytest.raises(ExpressionError) as caught:
        parse_watch(text)
    message = str(caught.value)
    assert message_part in message
    assert caught.value.column == column
    assert message.splitlines()[-1] == " " * (4 + column - 1) + "^"
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_an_error_shows_the_line_it_is_in_and_of_a_long_one_a_part():
    with pytest.raises(ExpressionError) as caught:
        parse_watch("a.x +- 1\nand b.x - 1")
    assert str(caught.value).splitlines()[1:] == ["    and b.x - 1", "            ^"]
    assert (caught.value.line, caught.value.column) == (2, 9)
    with pytest.raises(ExpressionError) as caught:
        parse_watch("a.x +- 1 or " * 100 + "!" + " or a.x +- 1" * 100)
    line, caret = str(caught.value).splitlines()[1:]
    assert line[len(caret) - 1] == "!"
    assert len(line) < 120


@pytest.mark.parametrize("text", ["-1", "0", "0%", "nan", "-inf", "infinity", "0.0"])
def test_thresholds_are_finite_and_above_zero(text):
    with pytest.raises(ExpressionError):
        parse_watch(f"a.x +- {text}")


def test_expressions_have_limits_that_are_named():
    with pytest.raises(ExpressionTooLarge, match=r"too many terms.*limit=256"):
        parse_watch(" or ".join(["a.x +- 1"] * 10_000))
    with pytest.raises(ExpressionTooLarge, match="characters"):
        parse_watch("a" * 300_000)
    with pytest.raises(ExpressionTooLarge, match="limit=64"):
        parse_watch("(" * 5_000 + "a.x +- 1")
    wide = " and ".join(f"(vix.value +- {n} or market[a].volume +- {n})" for n in range(1, 65))
    with pytest.raises(ExpressionTooLarge, match=f"alternatives={2**64}, limit=1024"):
        resolve(wide, SCHEMAS)
    assert parse_watch("(" * 64 + "a.x +- 1" + ")" * 64).root.path == "a.x"


names = st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters="\"'."), min_size=1, max_size=6)
paths = st.lists(names, min_size=1, max_size=3).map(".".join)
amounts = st.builds(Fraction, st.integers(1, 10**6), st.sampled_from([1, 10, 1000, 10**6]))
thresholds = st.builds(Threshold, amounts, st.sampled_from(["unit", "value", "range"]))
bracketed = st.builds(Term, paths, st.lists(st.tuples(names, paths), max_size=2).map(tuple), paths, thresholds)
terms = st.one_of(bracketed, st.builds(Term, paths, st.none(), st.none(), thresholds))
trees = st.recursive(
    terms,
    lambda inner: st.builds(
        lambda joint, parts: joint(tuple(parts)), st.sampled_from([And, Or]), st.lists(inner, min_size=2, max_size=3)
    ),
    max_leaves=6,
)


@given(trees)
def test_what_is_written_is_read_back(tree):
    assert parse_watch(format_formula(tree)).root == tree


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_one_error(text):
    with suppress(ExpressionError):
        assert parse_watch(text).text == text


@pytest.mark.parametrize(
    ("text", "quantity", "radius"),
    [
        ("market[AAPL].price +- 0.50", "market[AAPL].price", Radius(50)),
        ("market[AAPL].price +- 0.019", "market[AAPL].price", Radius(1)),
        ("market[symbol=AAPL].price +- 1%", "market[AAPL].price", Radius(0, Fraction(1, 100))),
        ("market[AAPL].price +- 1% of range", "market[AAPL].price", Radius(1000)),
        ("building.rooms[floor=two, room=12].t +- 1", "building.rooms[12, two].t", Radius(10)),
        ("vix.value +- 2", "vix[].value", Radius(4)),
        ("vix[].value +- 2", "vix[].value", Radius(4)),
        ("vix.rooms.t +- 2", "vix[].rooms.t", Radius(2)),
    ],
)
def test_names_and_units_become_quantities_and_ticks(text, quantity, radius):
    condition = resolve(text, SCHEMAS)
    assert [str(q) for q in condition.quantities] == [quantity]
    assert condition.conjuncts == (((0, radius),),)


@pytest.mark.parametrize(
    ("text", "kind", "message_part"),
    [
        ("markt[A].price +- 1", UnknownName, "nearest=['market']"),
        ("market[A].prize +- 1", UnknownName, "nearest=['price']"),
        ("viks.value +- 1", UnknownName, "nearest=['vix.value']"),
        ("market[symbl=A].price +- 1", UnknownName, "nearest=['symbol']"),
        ("building.rooms[room=1, floor=tow].t +- 1", UnknownName, "nearest=['two']"),
        ("market.price +- 1", ExpressionError, "write market[symbol=...]"),
        ("building.rooms[room=1].t +- 1", ExpressionError, "missing=['floor']"),
        ("building.rooms[1].t +- 1", ExpressionError, "write name=value for each"),
        ("building.rooms[room=1, room=2, floor=one].t +- 1", ExpressionError, "given twice"),
        ("building.rooms[room=x, floor=one].t +- 1", ExpressionError, "must be an integer"),
        ("market[A].mean +- 1", ExpressionError, "declare the property a number with a step"),
        ("market[A].name +- 1", ExpressionError, "choose_from=['price', 'volume']"),
        ("market[A].symbol +- 1", ExpressionError, "cannot be watched"),
        ("market[A].secret +- 1", ExpressionError, "cannot be watched"),
        ("market[A].price +- 0.001", ExpressionError, "below one step"),
        ("market[A].price +- 1e40", ExpressionError, "too many steps"),
        ("market[A].volume +- 1% of range", ExpressionError, "no range is declared"),
    ],
)
def test_expressions_that_do_not_fit_the_schemas_are_rejected(text, kind, message_part):
    with pytest.raises(kind) as caught:
        resolve(text, SCHEMAS)
    assert message_part in str(caught.value)
    assert str(caught.value).endswith("^")


def test_a_name_that_two_topics_could_mean_is_refused():
    deep = Schema("vix.rooms", [Property("t", "integer")])
    with pytest.raises(ExpressionError, match="several topics"):
        resolve("vix.rooms.t +- 1", SCHEMAS | {"vix.rooms": deep})


def test_a_share_and_an_amount_of_one_quantity_go_together():
    both = resolve("market[A].price +- 1 and market[A].price +- 1%", SCHEMAS)
    assert both.conjuncts == (((0, Radius(100, Fraction(1, 100))),),)
    either = resolve("market[A].price +- 1 or market[A].price +- 1%", SCHEMAS)
    assert len(either.conjuncts) == 2
