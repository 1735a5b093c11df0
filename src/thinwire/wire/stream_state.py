"""What writer and reader of a link's bodies know together, beside the sources' own state."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from thinwire.errors import CorruptFrame
from thinwire.schema import Schema
from thinwire.wire import stream_state_scales as scales
from thinwire.wire.partial_event import Lane, lanes_of
from thinwire.wire.stream_state_texts import TextTable

SEQUENCE, CHAIN, SOURCES, LAST_ALIAS, INCARNATION, WIDE, ATTENTION, VALUES = range(8)
"""cells of a link's state: the next sequence, the running check, how many sources there are, the alias told last, the
publisher's life, whether sequences are wide, what a kernel asks for, and how many values have travelled"""

ALIAS, SKIP, FIRST = 8, 9, 10
"""cells that hold scales: of the alias, of the skip, then one for each wire property"""

_MAX_SEQUENCE = 1 << 62

TableState = tuple[list[str], int]
"""the texts of a table, and which of them the next one takes the place of"""


class LinkState:
    """Scales, text tables, sequence and check: equal on both sides after every frame, reset by key frames.

    The numbers live in one array of cells, so that per-event code and compiled kernels move the same state.

    whole_texts: the writer leaves texts as they are, because bodies are packed as a whole
    """

    def __init__(self, schema: Schema, *, incarnation: int = 0, wide: bool = False) -> None:
        self.whole_texts = False
        self.lanes = lanes_of(schema)
        self.cells = array("q", [0] * (FIRST + len(self.lanes)))
        self.cells[INCARNATION] = incarnation & 3
        self.cells[WIDE] = wide
        self.tables = [
            TextTable(p.members) if lane is Lane.TEXT else None for p, lane in zip(schema.wire, self.lanes, strict=True)
        ]
        self.tail_mask = sum(1 << i for i, lane in enumerate(self.lanes) if lane >= Lane.TEXT)

    @property
    def sources(self) -> int:
        """How many sources the link has."""
        return self.cells[SOURCES]

    @sources.setter
    def sources(self, count: int) -> None:
        self.cells[SOURCES] = count

    def restart(self, level_bytes: bytes, sources: int) -> None:
        """Take over what a key frame says; its writer does the same."""
        levels = len(self.cells) - ALIAS
        if len(level_bytes) != levels or max(level_bytes) > scales.to_byte(scales.MAX_LEVEL):
            raise CorruptFrame("scales do not fit the schema", fields=len(level_bytes), expected=levels)
        self.cells[ALIAS:] = array("q", [scales.from_byte(byte) for byte in level_bytes])
        self.cells[SOURCES] = sources
        self.cells[LAST_ALIAS] = 0
        for table in self.tables:
            if table is not None:
                table.forget()

    def level_bytes(self) -> bytes:
        """The scales for a key frame."""
        return bytes(scales.to_byte(level) for level in self.cells[ALIAS:])

    def state(self) -> tuple[list[int], list[TableState | None]]:
        """All cells, as a reader has them, and all text tables."""
        cells = self.cells.tolist()
        cells[ATTENTION] = cells[VALUES] = 0  # notes of a writer to itself
        return cells, [None if table is None else table.state() for table in self.tables]

    def restore(self, cells: Sequence[int], tables: Sequence[TableState | None]) -> None:
        """Stand where another state of the same schema and life stood; refuses what none can be."""
        if len(cells) != len(self.cells) or not _is_place(cells):
            raise CorruptFrame("a place in the stream that does not fit the schema", cells=len(cells))
        if (cells[INCARNATION], cells[WIDE]) != (self.cells[INCARNATION], self.cells[WIDE]):
            raise CorruptFrame("a place in another stream", incarnation=cells[INCARNATION], wide=cells[WIDE])
        if [table is None for table in self.tables] != [state is None for state in tables]:
            raise CorruptFrame("text tables do not fit the schema", tables=len(tables), expected=len(self.tables))
        for table, state in zip(self.tables, tables, strict=True):
            if table is not None and state is not None:
                table.restore(*state)
        self.cells[:] = array("q", cells)


def _is_place(cells: Sequence[int]) -> bool:
    """Can a reader have these numbers in its cells?"""
    limits = {SEQUENCE: _MAX_SEQUENCE, CHAIN: 0xFFFF_FFFF, SOURCES: _MAX_SEQUENCE, INCARNATION: 3, WIDE: 1}
    limits[LAST_ALIAS] = max(cells[SOURCES] - 1, 0)
    limits[ATTENTION] = limits[VALUES] = 0
    return all(0 <= cell <= limits.get(place, scales.MAX_LEVEL) for place, cell in enumerate(cells))
