"""The city: its regions, its streets, and what a taxi's event looks like."""

from __future__ import annotations

from thinwire.schema import Kind, Property, Role, Schema

REGIONS = 24
"""regions along each side of the city"""
REGION = 500
"""metres along each side of a region"""
SIDE = REGIONS * REGION
BLOCK = 100
"""metres between two streets"""

SOUTH, WEST = 40_700_000, -74_020_000
"""the south-west corner, in millionths of a degree"""
NORTHWARD, EASTWARD = 9, 12
"""millionths of a degree to a metre, near enough in a city of twelve kilometres"""


def region_name(column: int, row: int) -> str:
    """The name of a region.

    >>> region_name(3, 11)
    'region-03-11'
    """
    return f"region-{column:02d}-{row:02d}"


def topic_names(region: str) -> tuple[str, str]:
    """The two topics of a region: what its taxis say, and what they hear.

    >>> topic_names("region-03-11")
    ('taxi.region-03-11.gps', 'taxi.region-03-11.update')
    """
    return f"taxi.{region}.gps", f"taxi.{region}.update"


def schema() -> Schema:
    """The schema of a taxi's events.

    >>> [p.name for p in schema()]
    ['timestamp', 'taxi', 'latitude', 'longitude', 'speed', 'occupied', 'region']
    """
    return Schema(
        "taxi.gps",
        [
            Property("timestamp", Kind.TIMESTAMP, Role.HEADER, form="iso:T3Z"),
            Property("taxi", Kind.STRING, Role.DIMENSION),
            Property("latitude", Kind.NUMBER, step="0.000001", minimum=-90, maximum=90),
            Property("longitude", Kind.NUMBER, step="0.000001", minimum=-180, maximum=180),
            Property("speed", Kind.NUMBER, step="1", minimum=0, maximum=200),
            Property("occupied", Kind.BOOLEAN),
            Property("region", Kind.STRING),
        ],
    )
