"""What must travel of an event."""

from __future__ import annotations

from typing import Any, NamedTuple


class Partial(NamedTuple):
    """The part of one event that its receiver cannot know.

    source: the alias of the event's source on this link
    skip: events of the source passed over in silence since the last one told
    mask: bit i is set where wire property i travels
    exceptions: bit i is set where it travels outside its lane: absent, off the grid, or out of range
    codes: one for each set bit, lowest first; what it holds depends on the lane:
        FLAG nothing (None), TICK the residual's code, FLOAT the XOR, GEO a pair of residual codes,
        TEXT the text, ARRAY a list of (place, code) or all ticks, OPAQUE bytes; for an exception an `Exact`
    """

    source: int
    skip: int
    mask: int
    exceptions: int
    codes: list[Any]


class Given(NamedTuple):
    """A partial whose format spells values out: property index to value."""

    source: int
    skip: int
    values: dict[int, Any]


def indexes(mask: int) -> list[int]:
    """The places of the set bits, lowest first.

    >>> indexes(0b1001)
    [0, 3]
    """
    return [index for index in range(mask.bit_length()) if mask >> index & 1]
