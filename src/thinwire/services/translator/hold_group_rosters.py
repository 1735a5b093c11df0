"""Sources as many channels know them: one row each, and where the rows of every roster are among them."""

from __future__ import annotations

import numpy as np

from thinwire.codec.source_table_roster import Roster
from thinwire.services.translator.hold_member_holder import Holder, Places
from thinwire.topics.demand_class import Source

_FIRST = 64
_NOWHERE: Places = np.zeros(0, dtype=np.int64)


class Rosters:
    """The sources of one publisher, and the number of the last event of each."""

    def __init__(self) -> None:
        self.rows: dict[Source, int] = {}
        self.seen: Places = np.zeros(_FIRST, dtype=np.int64)
        self._places: dict[int, tuple[Roster, Places]] = {}

    def row(self, source: Source, ordinal: int) -> int:
        """The row of a source; ordinal: of its last event, where nobody has met it yet."""
        row = self.rows.get(source)
        if row is None:
            row = self.rows[source] = len(self.rows)
            if row == len(self.seen):
                self.seen = np.concatenate((self.seen, np.zeros_like(self.seen)))
            self.seen[row] = ordinal
        return row

    def places(self, holder: Holder) -> Places:
        """Where the rows of a holder are; found once for all that share a roster."""
        roster = holder.link.encoder.reducer.roster
        _, known = self._places.get(id(roster), (roster, _NOWHERE))
        keys = holder.sources
        if len(known) < len(keys):
            more = [self.row(keys[row], holder.ordinal(row)) for row in range(len(known), len(keys))]
            known = np.concatenate((known, np.array(more, dtype=np.int64)))
            self._places[id(roster)] = roster, known
        return known
