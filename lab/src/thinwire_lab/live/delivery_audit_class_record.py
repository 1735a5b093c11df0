"""What an auditing subscriber writes down: every event it is handed, in the order in which they came.

Writing down is cheap and takes no memory while a round lasts, so that an auditor is hardly slower than the others of
its class; judging comes after the round (`class_judge`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thinwire.schema import Event

Rows = NDArray[np.float64]
_FEW = 1024


class Record:
    """Rows of source, claim, instant and readings; a source that nobody knows is -1.

    source, stamp: the properties that tell the source and the instant
    capacity: rows for which there is room from the beginning
    claims: how far values may be off, as events said; a row has the place of its event's claim

    >>> from thinwire.schema import Event
    >>> record = Record(["a"], ("t",), source="sensor", stamp="time")
    >>> record.note([Event({"sensor": "a", "time": 7, "t": 20.5}, bound={"t": 0.5}, source=("a",), ordinal=1)])
    >>> record.rows.tolist(), record.claims
    ([[0.0, 0.0, 7.0, 20.5]], [(0.5,)])
    """

    def __init__(
        self, names: Sequence[str], readings: Sequence[str], *, source: str, stamp: str, capacity: int = _FEW
    ) -> None:
        self.readings = tuple(readings)
        self.claims: list[tuple[float | None, ...]] = []
        self._columns = (stamp, *readings)
        self._source = source
        self._places = {name: place for place, name in enumerate(names)}
        self._bound: Mapping[str, float | None] | None = None
        self._claim = -1
        # written to once, so that the memory is there before anybody looks
        self._rows = np.full((max(capacity, _FEW), 2 + len(self._columns)), -1.0)
        self._used = 0

    def note(self, events: Sequence[Event]) -> None:
        """Write events down."""
        if not events:
            return
        places, source, columns, claim = self._places, self._source, self._columns, self._claim_of
        rows = [
            [places.get(event[source], -1), claim(event.bound), *map(event.__getitem__, columns)] for event in events
        ]
        self._make_room(len(rows))
        self._rows[self._used : self._used + len(rows)] = rows
        self._used += len(rows)

    @property
    def rows(self) -> Rows:
        """Everything so far."""
        return self._rows[: self._used]

    def _make_room(self, more: int) -> None:
        while self._used + more > len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, -1.0)])

    def _claim_of(self, bound: Mapping[str, float | None]) -> int:
        """The place of a claim; the events of a link share theirs, so that one look is enough for most."""
        if bound is not self._bound:
            claim = tuple(bound[name] for name in self.readings)
            if claim not in self.claims:
                self.claims.append(claim)
            self._bound, self._claim = bound, self.claims.index(claim)
        return self._claim
