"""State of a stream that encoder and decoder share, besides the state of sources.

Scales. A code `z` is written in Exp-Golomb of order `k`: with `v = z + 2^k` of `n` bits, `n - 1 - k` zero bits and then
`v`. The order is the bit length of half the mean code of the field. The level of a field is this mean, a running one in
sixteenths, which is equal on both sides.

>>> level = 0
>>> for z in (40, 44, 41, 39): level = adapt(level, z)
>>> (level >> 5).bit_length()
3

Text tables. A text is sent once and by its index afterwards. Declared enum members are always in the table. Other texts
are added when they are first sent, replace the oldest when the table is full, and are removed at a key frame, so that a
reader that starts there has the same table.

>>> table = TextTable(("off", "on"))
>>> table.index_of("on"), table.index_of("fault 7")
(1, None)
>>> table.remember("fault 7"); table.index_of("fault 7"), table.text(2)
(2, 'fault 7')
>>> other = TextTable(("off", "on"))
>>> other.restore(*table.state()); other.text(2)
'fault 7'
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from thinwire.errors import CorruptFrame
from thinwire.schema import Schema
from thinwire.wire.partial_event import EncodingKind, encoding_kind_of

CEILING = 1 << 40
"""larger codes count as this, so that the mean fits into 64 bits"""

MAX_LEVEL = CEILING << 4


def adapt(level: int, code: int) -> int:
    """Return the level after one more code."""
    if code > CEILING:  # noqa: PLR1730 - compiled into kernels, where `min` costs a call
        code = CEILING
    return level + (((code << 4) - level + 8) >> 4)


def to_byte(level: int) -> int:
    """Return a level in one byte for key frames: the position of its highest bit, and the bit after it."""
    length = level.bit_length()
    return 0 if level == 0 else 2 * length - 1 + (level >> (length - 2) & 1 if length > 1 else 0)


def from_byte(byte: int) -> int:
    """Return the level of a byte; `to_byte` returns the same byte for it."""
    if byte == 0:
        return 0
    length = (byte + 1) // 2
    half = (byte + 1) % 2
    return min((1 << length - 1) | (half << length - 2 if length > 1 else 0), MAX_LEVEL)


CAPACITY = 256
LONGEST = 1_024
"""characters; a longer text is sent in full each time"""


class TextTable:
    """Texts by index and indexes by text."""

    def __init__(self, members: tuple[str, ...] = ()) -> None:
        self.members = members
        self._indexes = {text: index for index, text in enumerate(members)}
        self._ring: list[str] = []
        self._next = 0

    def index_of(self, text: str) -> int | None:
        return self._indexes.get(text)

    def text(self, index: int) -> str:
        if index < len(self.members):
            return self.members[index]
        if index - len(self.members) >= len(self._ring):
            raise CorruptFrame("index of an unknown text", index=index)
        return self._ring[index - len(self.members)]

    def remember(self, text: str) -> None:
        """Add a text that was just sent."""
        if len(text) > LONGEST or text in self._indexes:
            return
        if len(self._ring) < CAPACITY:
            self._ring.append(text)
        else:
            del self._indexes[self._ring[self._next]]
            self._ring[self._next] = text
        self._indexes[text] = len(self.members) + self._next
        self._next = (self._next + 1) % CAPACITY

    def forget(self) -> None:
        """Remove all texts but the declared members."""
        for text in self._ring:
            del self._indexes[text]
        self._ring.clear()
        self._next = 0

    def state(self) -> tuple[list[str], int]:
        """Return the texts besides the declared members, and the index of the next one to replace."""
        return list(self._ring), self._next

    def restore(self, texts: list[str], next_index: int) -> None:
        """Restore the state of a table with the same members; raise `CorruptFrame` for an impossible state."""
        full = len(texts) == CAPACITY
        if len(texts) > CAPACITY or not (0 <= next_index < CAPACITY if full else next_index == len(texts)):
            raise CorruptFrame("a table of texts beyond its capacity", texts=len(texts), next_index=next_index)
        known = {*self.members, *texts}
        if len(known) < len(self.members) + len(texts) or any(len(text) > LONGEST for text in texts):
            raise CorruptFrame("a table with a repeated or too long text", texts=len(texts), limit=LONGEST)
        self.forget()
        self._ring += texts
        self._next = next_index
        self._indexes.update((text, index) for index, text in enumerate(texts, start=len(self.members)))


SEQUENCE, CHAIN, SOURCES, LAST_ALIAS, INCARNATION, WIDE, ATTENTION, VALUES = range(8)
"""cells of the state: next sequence, running check, number of sources, alias sent last, incarnation, whether sequences
are wide, row for which a kernel needs attention, number of values sent"""

ALIAS, SKIP, FIRST = 8, 9, 10
"""cells with scales: of the alias, of the skip, then one for each wire property"""

_MAX_SEQUENCE = 1 << 62

TableState = tuple[list[str], int]
"""the texts of a table, and the index of the next one to replace"""


class StreamState:
    """Scales, text tables, sequence and check: equal on both sides after every frame, reset by key frames.

    The numbers are in one array of cells, which per-event code and compiled kernels share.
    """

    def __init__(self, schema: Schema, *, incarnation: int = 0, wide: bool = False) -> None:
        self.encodings = tuple(encoding_kind_of(p.kind) for p in schema.wire)
        self.cells = array("q", [0] * (FIRST + len(self.encodings)))
        self.cells[INCARNATION] = incarnation & 3
        self.cells[WIDE] = wide
        self.tables = [
            TextTable(p.members) if encoding is EncodingKind.TEXT else None
            for p, encoding in zip(schema.wire, self.encodings, strict=True)
        ]
        self.tail_mask = sum(1 << i for i, encoding in enumerate(self.encodings) if encoding >= EncodingKind.TEXT)

    @property
    def sources(self) -> int:
        return self.cells[SOURCES]

    @sources.setter
    def sources(self, count: int) -> None:
        self.cells[SOURCES] = count

    def restart(self, level_bytes: bytes, sources: int) -> None:
        """Reset to the state of a key frame; the encoder does the same."""
        levels = len(self.cells) - ALIAS
        if len(level_bytes) != levels or max(level_bytes) > to_byte(MAX_LEVEL):
            raise CorruptFrame("scales do not fit the schema", fields=len(level_bytes), expected=levels)
        self.cells[ALIAS:] = array("q", [from_byte(byte) for byte in level_bytes])
        self.cells[SOURCES] = sources
        self.cells[LAST_ALIAS] = 0
        for table in self.tables:
            if table is not None:
                table.forget()

    def level_bytes(self) -> bytes:
        """Return the scales for a key frame."""
        return bytes(to_byte(level) for level in self.cells[ALIAS:])

    def state(self) -> tuple[list[int], list[TableState | None]]:
        """Return all cells, as a reader has them, and the states of all text tables."""
        cells = self.cells.tolist()
        cells[ATTENTION] = cells[VALUES] = 0  # used by the encoder only
        return cells, [None if table is None else table.state() for table in self.tables]

    def restore(self, cells: Sequence[int], tables: Sequence[TableState | None]) -> None:
        """Restore a state of the same schema and incarnation; raise `CorruptFrame` for an impossible one."""
        if len(cells) != len(self.cells) or not _is_valid(cells):
            raise CorruptFrame("stream state does not fit the schema", cells=len(cells))
        if (cells[INCARNATION], cells[WIDE]) != (self.cells[INCARNATION], self.cells[WIDE]):
            raise CorruptFrame("state of another stream", incarnation=cells[INCARNATION], wide=cells[WIDE])
        if [table is None for table in self.tables] != [state is None for state in tables]:
            raise CorruptFrame("text tables do not fit the schema", tables=len(tables), expected=len(self.tables))
        for table, state in zip(self.tables, tables, strict=True):
            if table is not None and state is not None:
                table.restore(*state)
        self.cells[:] = array("q", cells)


def _is_valid(cells: Sequence[int]) -> bool:
    limits = {SEQUENCE: _MAX_SEQUENCE, CHAIN: 0xFFFF_FFFF, SOURCES: _MAX_SEQUENCE, INCARNATION: 3, WIDE: 1}
    limits[LAST_ALIAS] = max(cells[SOURCES] - 1, 0)
    limits[ATTENTION] = limits[VALUES] = 0
    return all(0 <= cell <= limits.get(index, MAX_LEVEL) for index, cell in enumerate(cells))
