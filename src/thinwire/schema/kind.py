"""Kinds of values that the codec encodes."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The kind of a value; it determines how the value is encoded."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    """fixed point: a multiple of a declared step"""
    FLOAT = "float"
    """any double, without a step: held or sent, never predicted"""
    ENUM = "enum"
    STRING = "string"
    TIMESTAMP = "timestamp"
    GEO = "geo"
    """a position: `[latitude, longitude]` in degrees"""
    ARRAY = "array"
    """a fixed number of numbers, such as a lidar scan"""
    OPAQUE = "opaque"
    """bytes, or any JSON value"""


TOLERANT_KINDS = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.FLOAT, Kind.TIMESTAMP, Kind.GEO, Kind.ARRAY})
"""kinds that can have a tolerance"""
