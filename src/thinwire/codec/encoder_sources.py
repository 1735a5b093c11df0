"""Per-source state of a stream encoder, for services that decide which events an encoder must process."""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from thinwire.codec.row_map import RowMap, Source
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.source_table import DUE, LAST_SENT, ORDINAL
from thinwire.codec.ticks import ABSENT
from thinwire.wire.partial_event import EncodingKind

if TYPE_CHECKING:
    from thinwire.codec.frame_encoder import FrameEncoder

Ints = npt.NDArray[np.int64]


class EncoderSources:
    """The sources of one stream encoder by row: positions, quiet intervals, and suppression of unseen events.

    It is valid until the encoder is reconfigured.
    """

    def __init__(self, encoder: FrameEncoder) -> None:
        self._encoder = encoder
        self._table = encoder.reducer.table

    def __len__(self) -> int:
        return self._table.rows

    @property
    def rules(self) -> RuleSet:
        """The rules under which values are sent."""
        return self._encoder.reducer.rules

    @property
    def keys(self) -> list[Source]:
        """The sources in row order."""
        return self._encoder.reducer.keys

    @property
    def row_map(self) -> RowMap:
        """The row map, which may be shared with other encoders."""
        return self._encoder.reducer.row_map

    def row_of(self, source: Source) -> int | None:
        """Return the row of a source, or None if it is unknown."""
        return self._encoder.reducer.row_of(source)

    def last_ordinal(self, row: int) -> int:
        """Return the ordinal of the last event of a source, sent or suppressed."""
        return self._table.ordinal(row)

    def last_sent(self, row: int) -> int:
        """Return the ordinal up to which frames have reported the events of a source."""
        return self._table.cells[row * self._table.width + LAST_SENT]

    def must_send_next(self, row: int) -> bool:
        """Check whether the next event of a source needs a frame even if no value changed."""
        cells, start = self._table.cells, row * self._table.width
        return cells[start + DUE] == cells[start + ORDINAL] + 1

    def require_event(self, row: int, ordinal: int) -> None:
        """Send the event with this ordinal even if no value changed. Only for rules with `changes`."""
        self._table.cells[row * self._table.width + DUE] = ordinal

    def quiet_interval(self, row: int, rule: Rule) -> tuple[int, int] | None:
        """Return the lowest and the highest tick of a held property that need no frame; None if there are none.

        A tick in the interval is within the tolerance of the last sent value, in the declared range, and on the same
        side of the idle band.
        """
        last = self._table.last(row, rule.first_slot)
        if last == ABSENT:
            return None
        low, high = last - rule.tolerance, last + rule.tolerance
        if rule.band and low > 0:
            low = max(low, rule.band + 1)
        elif rule.band and high < 0:
            high = min(high, -rule.band - 1)
        return max(low, rule.lowest), min(high, rule.highest)

    def advance_to(self, row: int, ordinal: int) -> int:
        """Advance a source to `ordinal` as if every value up to it had been predicted. Return the number of events."""
        cells = self._table
        skipped = ordinal - cells.ordinal(row)
        if skipped <= 0:
            return 0
        if not cells.moving[row]:
            cells.cells[row * cells.width + ORDINAL] = ordinal
        elif self._rule_table is not None:
            from thinwire.codec.kernels.slot_updates import advance_source

            advance_source(self._rule_table, cells.view(), cells.width, row, ordinal)
        else:
            for _ in range(skipped):
                cells.advance(row)
        return skipped

    def advance_all(self, positions: Ints, ordinals: Ints) -> int:
        """Advance every source to `ordinals[positions[row]]`. Return the number of events. Needs compiled kernels."""
        from thinwire.codec.kernels.slot_updates import advance_sources

        cells = self._table
        if not cells.rows:
            return 0
        assert self._rule_table is not None
        return advance_sources(self._rule_table, cells.view(), cells.width, positions, ordinals)

    @cached_property
    def _rule_table(self) -> Ints | None:
        """The rules as kernels read them; None if the kernels cannot advance this cells.

        They advance ticks with built-in predictors. Predictions of other kinds are constant, except those of positions.
        """
        if self._encoder.compiled is not None:
            return self._encoder.compiled.rule_table
        if (
            find_spec("numba") is None
            or self.rules.custom
            or any(rule.encoding is EncodingKind.GEO for rule in self.rules.rules)
        ):
            return None
        from thinwire.codec.kernels.rule_table import build_rule_table

        return build_rule_table(self._table)
