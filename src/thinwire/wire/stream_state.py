"""What writer and reader of a link's bodies know together, beside the sources' own state.

Scales: how large a field's codes have been lately, so that they are written in fitting widths.

A code `z` is written in Exp-Golomb of order `k`: with `v = z + 2^k` of `n` bits, `n - 1 - k` zero bits and then `v`.
The order follows a running mean of the field's codes, kept in sixteenths and equal on both sides.

>>> level = 0
>>> for z in (40, 44, 41, 39): level = adapt(level, z)
>>> order(level)
3

The shared table of a text property: texts that repeat are told once and referred to afterwards.

Declared enum members are always in the table. Other texts enter when they are first told, the oldest leaves when the
table is full, and all leave at a key frame, so that a reader who starts there has the same table.

>>> table = TextTable(("off", "on"))
>>> table.place("on"), table.place("fault 7")
(1, None)
>>> table.remember("fault 7"); table.place("fault 7"), table.text(2)
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
from thinwire.wire.partial_event import EncodingKind, lanes_of

CEILING = 1 << 40
"""a code above this counts as this: the mean stays far inside 64 bits"""

MAX_LEVEL = CEILING << 4


def adapt(level: int, code: int) -> int:
    """The running mean after one more code."""
    if code > CEILING:  # noqa: PLR1730 - compiled into kernels, where `min` costs a call
        code = CEILING
    return level + (((code << 4) - level + 8) >> 4)


def order(level: int) -> int:
    """The order to write the next code with."""
    return (level >> 5).bit_length()


def to_byte(level: int) -> int:
    """A level in one byte, coarsely: two steps to an octave. Key frames carry this."""
    length = level.bit_length()
    return 0 if level == 0 else 2 * length - 1 + (level >> (length - 2) & 1 if length > 1 else 0)


def from_byte(byte: int) -> int:
    """The level a byte stands for; `to_byte` of it gives the byte again."""
    if byte == 0:
        return 0
    length = (byte + 1) // 2
    half = (byte + 1) % 2
    return min((1 << length - 1) | (half << length - 2 if length > 1 else 0), MAX_LEVEL)


CAPACITY = 256
LONGEST = 1_024
"""characters; a longer text is told in full each time"""


class TextTable:
    """Texts by place and places by text."""

    def __init__(self, members: tuple[str, ...] = ()) -> None:
        self.members = members
        self._places = {text: place for place, text in enumerate(members)}
        self._ring: list[str] = []
        self._next = 0

    def place(self, text: str) -> int | None:
        """Where the text stands, or None."""
        return self._places.get(text)

    def text(self, place: int) -> str:
        """The text at a place."""
        if place < len(self.members):
            return self.members[place]
        if place - len(self.members) >= len(self._ring):
            raise CorruptFrame("a text that was never told", place=place)
        return self._ring[place - len(self.members)]

    def remember(self, text: str) -> None:
        """Put a text just told into the table."""
        if len(text) > LONGEST or text in self._places:
            return
        if len(self._ring) < CAPACITY:
            self._ring.append(text)
        else:
            del self._places[self._ring[self._next]]
            self._ring[self._next] = text
        self._places[text] = len(self.members) + self._next
        self._next = (self._next + 1) % CAPACITY

    def forget(self) -> None:
        """Back to the declared members."""
        for text in self._ring:
            del self._places[text]
        self._ring.clear()
        self._next = 0

    def state(self) -> tuple[list[str], int]:
        """The texts beside the declared members, and which of them the next one takes the place of."""
        return list(self._ring), self._next

    def restore(self, texts: list[str], following: int) -> None:
        """Hold what another table of the same members held; refuses what none can."""
        full = len(texts) == CAPACITY
        if len(texts) > CAPACITY or not (0 <= following < CAPACITY if full else following == len(texts)):
            raise CorruptFrame("a table of texts beyond its capacity", texts=len(texts), following=following)
        known = {*self.members, *texts}
        if len(known) < len(self.members) + len(texts) or any(len(text) > LONGEST for text in texts):
            raise CorruptFrame("a table with a text twice, or one too long", texts=len(texts), limit=LONGEST)
        self.forget()
        self._ring += texts
        self._next = following
        self._places.update((text, place) for place, text in enumerate(texts, start=len(self.members)))


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
            TextTable(p.members) if lane is EncodingKind.TEXT else None
            for p, lane in zip(schema.wire, self.lanes, strict=True)
        ]
        self.tail_mask = sum(1 << i for i, lane in enumerate(self.lanes) if lane >= EncodingKind.TEXT)

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
        if len(level_bytes) != levels or max(level_bytes) > to_byte(MAX_LEVEL):
            raise CorruptFrame("scales do not fit the schema", fields=len(level_bytes), expected=levels)
        self.cells[ALIAS:] = array("q", [from_byte(byte) for byte in level_bytes])
        self.cells[SOURCES] = sources
        self.cells[LAST_ALIAS] = 0
        for table in self.tables:
            if table is not None:
                table.forget()

    def level_bytes(self) -> bytes:
        """The scales for a key frame."""
        return bytes(to_byte(level) for level in self.cells[ALIAS:])

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
    return all(0 <= cell <= limits.get(place, MAX_LEVEL) for place, cell in enumerate(cells))
