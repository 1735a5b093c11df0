"""The shared table of a text property: texts that repeat are told once and referred to afterwards.

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

from thinwire.errors import CorruptFrame

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
