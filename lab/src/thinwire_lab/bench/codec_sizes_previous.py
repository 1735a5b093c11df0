"""zstd with the message before as the dictionary: what delta coding gives without any training. A baseline.

It needs every message, in order: after a loss nothing can be read any more. That is why it is not one of the codecs
that a dictionary can name.

>>> sender, receiver = Previous(), Previous()
>>> for text in (b"temperature of room 11.1 is 20.5", b"temperature of room 11.1 is 20.7"):
...     packed = sender.pack(text)
...     assert receiver.unpack(packed, limit=100) == text
>>> len(packed)
7
"""

from __future__ import annotations

from thinwire.dictionaries.codecs.zstd import TABLES, Zstd


class Previous:
    """One end of a stream, the sending or the receiving one.

    level: of zstd
    largest: bytes of the largest message to be expected
    """

    def __init__(self, level: int = 3, largest: int = 1 << 12) -> None:
        self.level = level
        self.largest = largest
        self.name = f"zstd {level} previous message"
        self._codec = self._after(b"")

    def pack(self, message: bytes) -> bytes:
        """The message as a change of the one before."""
        packed = self._codec.pack(message)
        self._codec = self._after(message)
        return packed

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """The message again, if the one before was unpacked as well; what cannot be read changes nothing."""
        message = self._codec.unpack(packed, limit)
        self._codec = self._after(message)
        return message

    def _after(self, message: bytes) -> Zstd:
        return Zstd(b"" if message.startswith(TABLES) else message, self.level, self.largest)
