"""The two questions asked of every property: what part does it play, and what shape has its value?"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What part a property plays in its event."""

    HEADER = "header"
    """about the event itself, such as its timestamp"""
    DIMENSION = "dimension"
    """identifies the asset: all dimension values together are the source"""
    MEASUREMENT = "measurement"
    """what was observed"""


class Kind(StrEnum):
    """The shape of a value; the type rule of a property follows from it."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    """fixed point: an integer count of a declared step"""
    FLOAT = "float"
    """any double, no step declared: held or sent, never predicted"""
    ENUM = "enum"
    STRING = "string"
    TIMESTAMP = "timestamp"
    GEO = "geo"
    """a position: `[latitude, longitude]` in degrees"""
    ARRAY = "array"
    """numbers at fixed places, such as a lidar scan"""
    OPAQUE = "opaque"
    """bytes, or any JSON value without a fixed shape"""


TICK_KINDS = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.NUMBER, Kind.TIMESTAMP})
"""kinds whose values are one integer each, and can therefore be predicted"""

TOLERANT_KINDS = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.FLOAT, Kind.TIMESTAMP, Kind.GEO, Kind.ARRAY})
"""kinds for which a tolerance has a meaning"""
