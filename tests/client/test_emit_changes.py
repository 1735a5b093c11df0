"""emit="changes": what is delivered last stays within the tolerance of the truth, and nothing else passes."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from thinwire.client.change_filter import ChangeFilter
from thinwire.schema import Event, Property, Schema

ROOMS = Schema(
    "rooms",
    [
        Property("room", "string", "dimension"),
        Property("t", "number", step="0.1"),
        Property("on", "boolean"),
        Property("x", "float"),
    ],
)


def seen(room: str, t: float | None, on: bool = True, x: float = 0.0, bound: float = 0.0) -> Event:
    return Event({"room": room, "t": t, "on": on, "x": x}, bound={"t": bound}, source=(room,), ordinal=1)


def admits(changes: ChangeFilter, event: Event) -> bool:
    return bool(changes.select([event]))


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-300, 300)), max_size=60),
    st.integers(0, 30),
    st.integers(0, 10),
)
def test_what_was_delivered_last_stays_within_the_tolerance(
    walk: list[tuple[str, int]], tolerance: int, bound: int
) -> None:
    """Every value may be `bound` off; the filter leaves room for that, and passes nothing that would not have to."""
    changes = ChangeFilter(ROOMS, {"t": tolerance / 10})
    room_left = max(tolerance - bound, 0)
    last: dict[str, int] = {}
    for room, ticks in walk:
        passed = admits(changes, seen(room, float(Fraction(ticks, 10)), bound=bound / 10))
        must = room not in last or abs(ticks - last[room]) > room_left
        assert passed is must
        if passed:
            last[room] = ticks


def test_what_has_no_distance_passes_when_it_differs() -> None:
    changes = ChangeFilter(ROOMS, {"t": 5, "on": 0, "x": 0.5})
    story = [
        (seen("a", 20.0), True),
        (seen("a", 21.0), False),
        (seen("a", 21.0, on=False), True),
        (seen("a", None, on=False), True),
        (seen("a", None, on=False), False),
        (seen("a", 20.0, on=False), True),
        (seen("a", 20.0, on=False, x=0.4), False),
        (seen("a", 20.0, on=False, x=0.6), True),
    ]
    for event, passes in story:
        assert admits(changes, event) is passes


def test_unselected_properties_do_not_count_as_changes() -> None:
    changes = ChangeFilter(ROOMS, {"on": 0})
    assert admits(changes, seen("a", 20.0))
    assert not admits(changes, seen("a", 90.0))


def test_publishers_do_not_share_their_sources() -> None:
    changes = ChangeFilter(ROOMS, {"t": 0})
    one = Event({"room": "a", "t": 1.0, "on": True, "x": 0.0}, bound={}, source=("a",), ordinal=1, publisher="p1")
    two = Event({"room": "a", "t": 1.0, "on": True, "x": 0.0}, bound={}, source=("a",), ordinal=1, publisher="p2")
    assert admits(changes, one)
    assert admits(changes, two)
