"""Hypothesis strategies of properties, schemas and events.

>>> from hypothesis import find
>>> find(values_of(Property("level", "integer", minimum=3)), lambda level: True)
3

Histories are the events of a few sources in sequence.

Most values move a little from event to event, as readings do. Now and then one goes absent, jumps, leaves its grid, its
range or all reason: whatever a schema allows. A history is drawn as moves, so that a failing one shrinks to few events
and small moves.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from thinwire.schema import Kind, Property, Role, Schema
from thinwire.schema.event import nest
from thinwire.schema.timestamps import writer

SAFE_TICKS = 2**40
"""counts of a step above which adjacent doubles may be equal for some step drawn here"""

_FORMS = [None, "epoch", "datetime", "iso:T3Z", "iso:T0", "iso: 6", "iso:T9+00:00"]
_SCALED = frozenset({Kind.NUMBER, Kind.ARRAY})
_RANGED = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.FLOAT, Kind.ARRAY})
_NAMED = ["qudt:DEG_C", "qudt:Power", "wgs84:lat_long", "status", "so:Thing", "%", "http://example.org/ns#a b", "a:b"]

parts = st.text(st.characters(exclude_characters=".", exclude_categories=["Cs"]), min_size=1, max_size=6)
"""one part of a path"""

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""texts that can be encoded as UTF-8"""

names = st.lists(parts, min_size=1, max_size=3).map(".".join)
"""paths of up to three parts"""

steps = st.one_of(
    st.integers(-6, 3).map(lambda power: Fraction(10) ** power),
    st.sampled_from([Fraction(1, 4), Fraction(1, 3), Fraction(5), Fraction(1, 60)]),
)
finite = st.one_of(st.integers(-(2**40), 2**40), st.floats(-1e12, 1e12))


@st.composite
def properties(
    draw: DrawFn,
    kinds: SearchStrategy[Kind] | None = None,
    roles: SearchStrategy[Role] | None = None,
    names: SearchStrategy[str] = names,
) -> Property:
    """Draw any valid property, with all fields that apply to its kind."""
    kind = draw(kinds or st.sampled_from(Kind))
    role = draw(roles or st.sampled_from(_roles(kind)))
    low, high = draw(_ranges) if kind in _RANGED else (None, None)
    members = draw(st.lists(texts, max_size=4, unique=True)) if kind is Kind.ENUM else []
    return Property(
        draw(names),
        kind,
        role,
        step=draw(steps) if kind in _SCALED else None,
        minimum=low,
        maximum=high,
        unit=draw(_labels),
        domain=draw(_labels),
        members=members,
        closed=bool(members) and draw(st.booleans()),
        form=draw(st.sampled_from(_FORMS)) if kind is Kind.TIMESTAMP else None,
        length=draw(st.integers(1, 5)) if kind is Kind.ARRAY else None,
        idle_band=draw(st.none() | st.floats(0, 1e6)) if kind in (Kind.NUMBER, Kind.INTEGER) else None,
        period=draw(st.none() | st.integers(2, 4096)),
        confidential=role is Role.MEASUREMENT and draw(st.booleans()),
    )


_labels = st.none() | st.sampled_from(_NAMED) | texts
_ranges = st.one_of(
    st.tuples(st.none() | finite, st.none()),
    st.lists(finite, min_size=2, max_size=2).map(sorted).map(tuple),
)


def _roles(kind: Kind) -> list[Role]:
    identifying = kind in (Kind.BOOLEAN, Kind.INTEGER, Kind.ENUM, Kind.STRING)
    return list(Role) if identifying else [Role.HEADER, Role.MEASUREMENT]


def schemas(max_properties: int = 6) -> SearchStrategy[Schema]:
    """Return a strategy of schemas with a few properties."""
    listed = st.lists(properties(), min_size=1, max_size=max_properties).filter(_apart)
    return st.builds(Schema, texts.filter(bool), listed, st.integers(1, 2**31))


def _apart(listed: list[Property]) -> bool:
    """Return whether names are unique and none is a parent object of another."""
    dotted = [f"{p.name}." for p in listed]
    return not any(a is not b and b.startswith(a) for a in dotted for b in dotted)


def events_of(schema: Schema, *, flat: bool = False) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy of valid events, with nested objects as in a publisher.

    Dimensions and the timestamp are always there; any other property may be missing or null.
    """
    needed = {p.name: values_of(p) for p in schema if p.role is Role.DIMENSION or p is schema.time}
    free = {p.name: st.none() | values_of(p) for p in schema if p.name not in needed}
    events = st.fixed_dictionaries(needed, optional=free)
    return events if flat else events.map(nest)


def values_of(p: Property) -> SearchStrategy[Any]:
    """Any value of a property, within its range if it has one."""
    return _VALUES[p.kind](p)


def _integers(p: Property) -> SearchStrategy[Any]:
    low = -SAFE_TICKS if p.minimum is None else int(-(-p.minimum // 1))
    high = SAFE_TICKS if p.maximum is None else int(p.maximum // 1)
    return st.integers(min(low, high), max(low, high))


def _numbers(p: Property) -> SearchStrategy[Any]:
    step = p.step or Fraction(1)
    low = -SAFE_TICKS if p.minimum is None else int(Fraction(p.minimum) // step)
    high = SAFE_TICKS if p.maximum is None else int(Fraction(p.maximum) // step)
    return st.integers(min(low, high), max(low, high)).map(lambda ticks: float(ticks * step))


def _floats(p: Property) -> SearchStrategy[Any]:
    return st.floats(p.minimum, p.maximum, allow_nan=False, allow_infinity=False)


def _enums(p: Property) -> SearchStrategy[Any]:
    members = st.sampled_from(p.members) if p.members else st.nothing()
    return members if p.closed else members | texts


def _stamps(p: Property) -> SearchStrategy[Any]:
    form = p.form or "epoch"
    if form == "epoch":
        return st.integers(0, 2**33).map(lambda ticks: ticks if p.step is None else float(ticks * p.step))
    if form == "datetime":
        return st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
    return st.integers(0, 4 * 10 ** (9 + int(form[5]))).map(writer(form))


def _positions(p: Property) -> SearchStrategy[Any]:
    return st.tuples(st.integers(-900_000, 900_000), st.integers(-1_800_000, 1_800_000)).map(
        lambda pair: [pair[0] / 10_000, pair[1] / 10_000]
    )


def _arrays(p: Property) -> SearchStrategy[Any]:
    return st.lists(_numbers(p), min_size=p.length or 0, max_size=p.length or 5)


def _opaque(p: Property) -> SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers(-SAFE_TICKS, SAFE_TICKS) | texts
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2))


_VALUES: dict[Kind, Callable[[Property], SearchStrategy[Any]]] = {
    Kind.BOOLEAN: lambda p: st.booleans(),
    Kind.INTEGER: _integers,
    Kind.NUMBER: _numbers,
    Kind.FLOAT: _floats,
    Kind.ENUM: _enums,
    Kind.STRING: lambda p: texts,
    Kind.TIMESTAMP: _stamps,
    Kind.GEO: _positions,
    Kind.ARRAY: _arrays,
    Kind.OPAQUE: _opaque,
}


Move = int | str
ODD_MOVES = ("absent", "jump", "back", "odd", "outside", "huge", "zero", "whole")

small: SearchStrategy[Move] = st.integers(-4, 4)
"""moves of a quiet stream"""

moves: SearchStrategy[Move] = st.one_of(small, small, st.integers(-300, 300), st.sampled_from(ODD_MOVES))
"""moves of any stream"""

_START = 1_600_000_000
_HUGE = 2**60 + 3


def histories(
    schema: Schema, moves: SearchStrategy[Move] = moves, *, sources: int = 3, max_size: int = 25
) -> SearchStrategy[list[dict[str, Any]]]:
    """Events of up to `sources` sources, in the nested form that a publisher holds."""
    free = [p for p in schema if p not in schema.dimensions]
    step = st.tuples(st.integers(0, sources - 1), st.tuples(*(moves for _ in free)))
    return st.lists(step, min_size=1, max_size=max_size).map(lambda steps: _play(schema, free, steps))


def _play(schema: Schema, free: list[Property], steps: list[tuple[int, tuple[Move, ...]]]) -> list[dict[str, Any]]:
    states: dict[tuple[int, str], Any] = {}
    events: list[dict[str, Any]] = []
    for source, step in steps:
        event: dict[str, Any] = {p.name: _IDENTITIES[p.kind](source) for p in schema.dimensions}
        for p, move in zip(free, step, strict=True):
            state = states.get((source, p.name))
            states[source, p.name], value = _MOVES[p.kind](p, state, move)
            event[p.name] = None if move == "absent" and p is not schema.time else value
        events.append(nest(event))
    return events


_IDENTITIES: dict[Kind, Callable[[int], Any]] = {
    Kind.STRING: lambda source: f"S{source}",
    Kind.ENUM: lambda source: f"S{source}",
    Kind.INTEGER: lambda source: source,
    Kind.BOOLEAN: bool,
}


def _count(state: int | None, move: Move, jump: int = 997) -> int:
    """Return the next value of a counter."""
    state = state or 0
    if isinstance(move, int):
        return state + move
    return {"jump": state + jump, "back": state - jump, "zero": 0}.get(move, state)


def _number(p: Property, state: int | None, move: Move) -> tuple[int, Any]:
    step = p.step or Fraction(1)
    state = _count(state, move)
    if move == "outside" and p.maximum is not None:
        return state, float(int(Fraction(str(p.maximum)) / step + 7) * step)
    if move == "huge":
        return state, float(_HUGE * step) if step < 1 else int(_HUGE * step)
    value = float(state * step)
    if move == "odd":
        return state, value + float(step) * 0.37
    if move == "whole" and value.is_integer():
        return state, int(value) + (step > 2)
    return state, -0.0 if move == "zero" else value


def _integer(p: Property, state: int | None, move: Move) -> tuple[int, Any]:
    state = _count(state, move)
    if move == "outside" and p.maximum is not None:
        return state, int(p.maximum) + 7
    return state, {"huge": _HUGE, "odd": -_HUGE, "whole": float(state)}.get(str(move), state)


def _float(p: Property, state: int | None, move: Move) -> tuple[int, Any]:
    state = _count(state, move)
    if move == "outside" and p.maximum is not None:
        return state, p.maximum * 2 + 1.25
    return state, {"huge": 1e300, "odd": 5e-324, "zero": -0.0, "whole": state}.get(str(move), state * 0.37)


def _boolean(p: Property, state: bool | None, move: Move) -> tuple[bool, Any]:
    state = bool(state) ^ (isinstance(move, int) and move % 2 == 1)
    return state, state


def _text(p: Property, state: str | None, move: Move) -> tuple[str, Any]:
    items = p.members or ("calm", "storm")
    if not isinstance(move, int):
        state = items[0] if p.closed else {"huge": "x" * 7_000, "odd": "déjà vu", "zero": ""}.get(move, f"fault {move}")
    elif move % 3 == 1:
        state = items[move % len(items)]
    return state or items[0], state or items[0]


def _stamp(p: Property, state: int | None, move: Move) -> tuple[int, Any]:
    form = p.form or "epoch"
    unit = 1_000_000 if form == "datetime" else 10 ** int(form[5]) if form != "epoch" else 1000
    state = (_START * unit if state is None else state) + unit + _count(0, move, jump=50 * unit)
    if form == "datetime":
        return state, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=state)
    if form == "epoch":
        value = state * (p.step or 1)
        return state, (float(value) if p.step else state) + (0.37 if move == "odd" else 0)
    return state, "2020-13-45 some day" if move == "odd" else writer(form)(state)


def _position(p: Property, state: tuple[int, int] | None, move: Move) -> tuple[tuple[int, int], Any]:
    north, east = state or (490_000_000, 80_000_000)
    if isinstance(move, int):
        north, east = north + 3 * move, east + move * abs(move)
    north = {"jump": 899_999_990, "back": -899_999_900, "zero": 5}.get(str(move), north)
    east = {"outside": 1_799_999_990, "huge": 1_800_000_000, "whole": -1_799_999_990}.get(str(move), east)
    north, east = max(-900_000_000, min(900_000_000, north)), (east + 1_800_000_000) % 3_600_000_000 - 1_800_000_000
    position = [north / 1e7, 180.0 if move == "huge" else east / 1e7]
    return (north, east), [position[0] * 0.99 + 1e-9, position[1]] if move == "odd" else position


def _array(p: Property, state: list[int] | None, move: Move) -> tuple[list[int], Any]:
    step = p.step or Fraction(1)
    state = list(state or [0] * (p.length or 4))
    if isinstance(move, int):
        state[move % len(state)] += move
    elif move == "jump" and p.length is None:
        state.append(7)
    values = [float(ticks * step) for ticks in state]
    if move == "odd":
        values[0] += float(step) * 0.37
    if move == "outside" and p.maximum is not None:
        values[-1] = float(int(Fraction(str(p.maximum)) / step + 7) * step)
    return state, values


def _opaque_histories(p: Property, state: Any, move: Move) -> tuple[Any, Any]:
    state = {"odd": b"\x00bytes", "huge": {"$bytes": "aGk="}, "jump": [1, [2.5, None]], "zero": ""}.get(
        str(move), {"k": move} if state is None or (isinstance(move, int) and move % 3 == 1) else state
    )
    return state, state


_MOVES: dict[Kind, Callable[[Property, Any, Move], tuple[Any, Any]]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.FLOAT: _float,
    Kind.ENUM: _text,
    Kind.STRING: _text,
    Kind.TIMESTAMP: _stamp,
    Kind.GEO: _position,
    Kind.ARRAY: _array,
    Kind.OPAQUE: _opaque_histories,
}
