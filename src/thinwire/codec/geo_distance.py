"""Distance between two positions in integer arithmetic.

A position is a pair of integers in 10^-7 degrees. A degree of latitude counts as 111,695 m (the maximum on WGS 84); a
degree of longitude as that times the cosine at the whole degree below the latitude nearer to the equator. Both are
upper limits, so a distance within a tolerance is correct.

>>> within(1_000, 0, latitude=490_000_000, tolerance=ticks(12.0))
True
>>> within(1_100, 0, latitude=490_000_000, tolerance=ticks(12.0))
False
"""

from __future__ import annotations

import math

from thinwire.errors import WrongType

UNIT = 10_000_000
METRES_PER_TICK = 111_695.0 / UNIT
_TURN, _POLE = 360 * UNIT, 90 * UNIT
_FAR = 1 << 30
COSINES = tuple(min(1 << 15, round(math.cos(math.radians(degree)) * (1 << 15)) + 1) for degree in range(91))
"""in 2^-15, rounded up"""


def ticks(metres: float) -> int:
    """Return the number of ticks of latitude that fit into a distance."""
    return min(int(metres / METRES_PER_TICK), _FAR)


def half_bin(tolerance: int) -> int:
    """Return half the bin width per coordinate that keeps a position within the tolerance: 1/sqrt(2) of it."""
    return tolerance * 181 // 256


def wrap(longitude: int) -> int:
    """Return a difference of longitudes the short way round."""
    return (longitude + _TURN // 2) % _TURN - _TURN // 2


def within(north: int, east: int, latitude: int, tolerance: int) -> bool:
    """Check whether a point at `latitude`, this far north and east of another, is within the tolerance (in ticks)."""
    if abs(north) > _FAR or abs(east) > _FAR:
        return False
    across = (abs(east) * _cosine(north, latitude) >> 15) + 1 if east else 0
    return north * north + across * across <= tolerance * tolerance


def distance(north: int, east: int, latitude: int) -> float:
    """Return the distance that `within` compares, in metres."""
    return math.hypot(north, abs(east) * _cosine(north, latitude) / (1 << 15)) * METRES_PER_TICK


def _cosine(north: int, latitude: int) -> int:
    """Return the cosine at the latitude nearer to the equator; at the equator if it is between both."""
    other = latitude - north
    nearer = min(abs(latitude), abs(other)) if (latitude < 0) == (other < 0) else 0
    return COSINES[min(nearer // UNIT, 90)]


def to_ticks(position: object, name: str) -> tuple[int, int, bool]:
    """Return latitude and longitude as ticks, and whether they are exact."""
    if not isinstance(position, list | tuple) or len(position) != 2:
        raise WrongType("a position is [latitude, longitude] in degrees", property=name, value=position)
    latitude, longitude = position
    for value in position:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or (isinstance(value, float) and not math.isfinite(value)):
            raise WrongType("a position is two finite numbers", property=name, value=position)
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise WrongType("latitude is -90 to 90, longitude -180 to 180", property=name, value=position)
    north, east = round(latitude * UNIT), round(longitude * UNIT)
    # 180 east is sent as 180 west, the same position but another number
    return north, east, north / UNIT == latitude and east / UNIT == longitude and east != _TURN // 2


def on_globe(latitude: int, longitude: int) -> tuple[int, int]:
    """Return the position on the globe after a bin or a prediction crossed a pole or the date line."""
    return max(-_POLE, min(_POLE, latitude)), wrap(longitude)


def from_ticks(latitude: int, longitude: int) -> list[float]:
    """Return the position in degrees."""
    latitude, longitude = on_globe(latitude, longitude)
    return [latitude / UNIT, longitude / UNIT]
