"""Which parts of a dictionary messages refer to, and how much of a message comes from where.

What a codec refers to is its own affair and not told, so the messages are parsed here as dictionary codecs do: at each
byte the longest text of four bytes or more that the dictionary, or the message before it, has. Section 5.2.3 of the
thesis calls the two dictionary usage and internal usage.

>>> usage = Usage(b'{"room": "11.1", "never said"')
>>> usage.add(b'{"room": "11.7", {"room": ')
>>> usage.counts[:12], round(usage.used, 2), round(usage.internal, 2), round(usage.referred, 2)
([2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1], 0.45, 0.0, 0.85)
"""

from __future__ import annotations

from collections import defaultdict

WINDOW = 4
TRIED = 16
"""places of a window that are tried, the latest: where a dictionary keeps its best"""


class Usage:
    """The usage of one dictionary.

    content: its bytes; with a dictionary for zstd that includes its tables, which nothing refers to
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.counts = [0] * len(content)
        self._places: dict[bytes, list[int]] = defaultdict(list)
        self._bytes = self._from_dictionary = self._from_message = 0
        for at in range(len(content) - WINDOW + 1):
            self._places[content[at : at + WINDOW]].append(at)

    @property
    def used(self) -> float:
        """The share of the dictionary that was referred to at all."""
        return sum(1 for count in self.counts if count) / max(len(self.counts), 1)

    @property
    def referred(self) -> float:
        """The share of the messages that came out of the dictionary."""
        return self._from_dictionary / max(self._bytes, 1)

    @property
    def internal(self) -> float:
        """The share of the messages that came out of themselves."""
        return self._from_message / max(self._bytes, 1)

    def add(self, message: bytes) -> None:
        """Parse a message and count what it refers to."""
        self._bytes += len(message)
        at = 0
        while at < len(message):
            place, length = self._longest(message, at)
            inside = _repeated(message, at, length + 1)
            if inside > length:
                self._from_message += inside
            elif length:
                self._from_dictionary += length
                for part in range(place, place + length):
                    self.counts[part] += 1
            at += max(inside, length, 1)

    def _longest(self, message: bytes, at: int) -> tuple[int, int]:
        """The longest text of the dictionary that goes on here: where, and how long; (0, 0) where there is none."""
        best, length = 0, 0
        for place in self._places.get(message[at : at + WINDOW], ())[-TRIED:]:
            found = _common(self.content, place, message, at)
            if found > length:
                best, length = place, found
        return best, length


def _repeated(message: bytes, at: int, least: int) -> int:
    """Bytes from here on that stood earlier in the message; 0 where they are fewer than `least` or a window."""
    least = max(least, WINDOW)
    found = message.find(message[at : at + least], 0, at) if at + least <= len(message) else -1
    return _common(message, found, message, at) if found >= 0 else 0


def _common(one: bytes, place: int, other: bytes, at: int) -> int:
    """Bytes that are equal from these two places on."""
    most = min(len(one) - place, len(other) - at)
    length = 0
    while length < most and one[place + length] == other[at + length]:
        length += 1
    return length
