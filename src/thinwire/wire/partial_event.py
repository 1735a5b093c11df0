"""The ways a value can travel: each kind of property takes one lane.

A *slot* is one integer of a source's state. Ticks, flags and floats (as bit patterns) take one slot, a position takes
two, the other lanes keep whole objects and take none.
"""

from __future__ import annotations

from enum import IntEnum

from thinwire.schema import Kind, Schema


class Lane(IntEnum):
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
    Kind.BOOLEAN: Lane.FLAG,
    Kind.INTEGER: Lane.TICK,
    Kind.NUMBER: Lane.TICK,
    Kind.TIMESTAMP: Lane.TICK,
    Kind.FLOAT: Lane.FLOAT,
    Kind.GEO: Lane.GEO,
    Kind.ENUM: Lane.TEXT,
    Kind.STRING: Lane.TEXT,
    Kind.ARRAY: Lane.ARRAY,
    Kind.OPAQUE: Lane.OPAQUE,
}

SLOTS = {Lane.FLAG: 1, Lane.TICK: 1, Lane.FLOAT: 1, Lane.GEO: 2}


def lane_of(kind: Kind) -> Lane:
    """The lane a kind takes."""
    return _LANES[kind]


def lanes_of(schema: Schema) -> tuple[Lane, ...]:
    """The lanes of a schema's wire properties, in order."""
    return tuple(_LANES[p.kind] for p in schema.wire)
