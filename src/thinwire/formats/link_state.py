"""What writer and reader of a link's bodies know together, beside the sources' own state."""

from __future__ import annotations

from array import array

from thinwire.errors import CorruptFrame
from thinwire.events import Schema
from thinwire.formats import scales
from thinwire.formats.lanes import Lane, lanes_of
from thinwire.formats.texts import TextTable

SEQUENCE, CHAIN, SOURCES, LAST_ALIAS, INCARNATION, WIDE, ATTENTION, VALUES = range(8)
"""cells of a link's state: the next sequence, the running check, how many sources there are, the alias told last, the
publisher's life, whether sequences are wide, what a kernel asks for, and how many values have travelled"""

ALIAS, SKIP, FIRST = 8, 9, 10
"""cells that hold scales: of the alias, of the skip, then one for each wire property"""


class LinkState:
    """Scales, text tables, sequence and check: equal on both sides after every frame, reset by key frames.

    The numbers live in one array of cells, so that per-event code and compiled kernels move the same state.
    """

    def __init__(self, schema: Schema, *, incarnation: int = 0, wide: bool = False) -> None:
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
