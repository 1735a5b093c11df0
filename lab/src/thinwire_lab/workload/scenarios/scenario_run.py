"""When each event of a run was meant to be sent, by its identity.

Latency is counted from there, and not from when it was sent: a publisher that falls behind cannot hide it.

>>> instants = Instants()
>>> instants.note("p1", 1, ("T1",), 0.25); instants.note("p1", 1, ("T1",), 0.75)
>>> instants.of(("p1", 1, ("T1",), 2)), instants.of(("p9", 1, ("T1",), 2))
(0.75, None)
"""

from __future__ import annotations

from array import array
from typing import Any

from thinwire.schema.event import Identity

Source = tuple[Any, ...]


class Instants:
    """Seconds since the beginning of a run, by publisher, life, source and number."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, int, Source], array[float]] = {}

    def note(self, publisher: str, life: int, source: Source, instant: float) -> None:
        """The next event of a source."""
        key = publisher, life, source
        known = self._of.get(key)
        if known is None:
            known = self._of[key] = array("d")
        known.append(instant)

    def of(self, identity: Identity) -> float | None:
        """When an event was meant to be sent; None where it is none of this run."""
        publisher, life, source, ordinal = identity
        known = self._of.get((publisher, life, source))
        return known[ordinal - 1] if known is not None and 0 < ordinal <= len(known) else None
