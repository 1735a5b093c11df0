"""The ways a value can travel: each kind of property takes one lane.

A *slot* is one integer of a source's state. Ticks, flags and floats (as bit patterns) take one slot, a position takes
two, the other lanes keep whole objects and take none.

What must travel of an event.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from thinwire.schema import Kind, Schema


class EncodingKind(IntEnum):
    """How a property's value travels when it must."""

    FLAG = 0
    """the presence bit says it all: the other of two values"""
    TICK = 1
    """a residual against the prediction"""
    FLOAT = 2
    """XOR with the last bit pattern"""
    GEO = 3
    """two residuals, decided together"""
    TEXT = 4
    """a reference into a shared table, or the text once"""
    ARRAY = 5
    """a sparse patch, or all elements"""
    OPAQUE = 6
    """the bytes"""


_LANES = {
    Kind.BOOLEAN: EncodingKind.FLAG,
    Kind.INTEGER: EncodingKind.TICK,
    Kind.NUMBER: EncodingKind.TICK,
    Kind.TIMESTAMP: EncodingKind.TICK,
    Kind.FLOAT: EncodingKind.FLOAT,
    Kind.GEO: EncodingKind.GEO,
    Kind.ENUM: EncodingKind.TEXT,
    Kind.STRING: EncodingKind.TEXT,
    Kind.ARRAY: EncodingKind.ARRAY,
    Kind.OPAQUE: EncodingKind.OPAQUE,
}

SLOTS = {EncodingKind.FLAG: 1, EncodingKind.TICK: 1, EncodingKind.FLOAT: 1, EncodingKind.GEO: 2}


def lane_of(kind: Kind) -> EncodingKind:
    """The lane a kind takes."""
    return _LANES[kind]


def lanes_of(schema: Schema) -> tuple[EncodingKind, ...]:
    """The lanes of a schema's wire properties, in order."""
    return tuple(_LANES[p.kind] for p in schema.wire)


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


class ExplicitValues(NamedTuple):
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
