"""Partial events and the encoding kind of each property kind.

A *slot* is one integer of the state of a source. Ticks, flags and floats (as bit patterns) take one slot, a geographic
position takes two. The other encodings keep objects and take none.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from thinwire.schema import Kind


class EncodingKind(IntEnum):
    """How the value of a property is encoded."""

    FLAG = 0
    """no code: the bit in the mask means that the value is not the predicted one of the two"""
    TICK = 1
    """a residual against the prediction"""
    FLOAT = 2
    """XOR with the last bit pattern"""
    GEO = 3
    """two residuals, sent or suppressed together"""
    TEXT = 4
    """an index into a shared table, or the text"""
    ARRAY = 5
    """a sparse patch, or all elements"""
    OPAQUE = 6
    """the bytes"""


_ENCODING_KINDS = {
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


def encoding_kind_of(kind: Kind) -> EncodingKind:
    return _ENCODING_KINDS[kind]


class PartialEvent(NamedTuple):
    """The part of one event that must be sent.

    source: alias of the source in this stream
    skip: suppressed events of the source since the last one sent
    mask: bit i is set if wire property i is sent
    exceptions: bit i is set if it is sent as an exact value: absent, off the grid, or out of range
    codes: one for each set bit, lowest first, by encoding:
        FLAG None, TICK the code of the residual, FLOAT the XOR, GEO a pair of residual codes,
        TEXT the text, ARRAY a list of (index, code) or all ticks, OPAQUE bytes; for an exception the exact value
    """

    source: int
    skip: int
    mask: int
    exceptions: int
    codes: list[Any]


class ExplicitValues(NamedTuple):
    """A partial event with explicit values: property index -> value."""

    source: int
    skip: int
    values: dict[int, Any]


def indexes(mask: int) -> list[int]:
    """Return the indexes of the set bits, lowest first.

    >>> indexes(0b1001)
    [0, 3]
    """
    return [index for index in range(mask.bit_length()) if mask >> index & 1]
