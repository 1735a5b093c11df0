"""Virtual events as they were first described: a property travels when it is off by more than its tolerance.

Expected is the last value the receiver has; what travels, travels exactly. Both ends hold the same picture, so errors
never add up. Our own reduction does more; this is the original, to stand beside it.

>>> from thinwire.schema import Property
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> changes, picture = Changes(rooms, tolerance=1.0), {}
>>> for heat in (20.0, 20.9, 21.1):
...     picture |= changes.reduce({"room": "11.1", "t": heat})
...     print(picture)
{'room': '11.1', 't': 20.0}
{'room': '11.1', 't': 20.0}
{'room': '11.1', 't': 21.1}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thinwire.codec import Demand
from thinwire.codec.demand import tolerance_of
from thinwire.schema import Schema


class Changes:
    """The reducing end of one hop, for one source."""

    def __init__(self, schema: Schema, tolerance: float = 0.0) -> None:
        demand = Demand(default_tolerance=tolerance)
        self._tolerance = {p.name: float(tolerance_of(schema, p, demand)) for p in schema.wire}
        self._tolerance |= {p.name: 0.0 for p in schema.dimensions}
        self._picture: dict[str, Any] = {}

    def reduce(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """The partial: what the receiver cannot know within the tolerance."""
        picture, tolerance = self._picture, self._tolerance
        partial = {
            name: value
            for name, value in event.items()
            if name not in picture or (picture[name] != value and not _near(picture[name], value, tolerance[name]))
        }
        picture.update(partial)
        return partial


def _near(expected: Any, value: Any, tolerance: float) -> bool:
    return tolerance > 0 and abs(expected - value) <= tolerance
