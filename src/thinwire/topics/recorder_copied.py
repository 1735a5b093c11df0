"""How far the recording of a topic is.

>>> copied = Copied("rooms", since=5, last=0, end=9)
>>> copied.note(Stored(5, "rooms.p1.k", b"...", 0.0))
>>> copied.note(Stored(9, "rooms.p1.d", b".", 0.0))
(6, 8)
>>> copied.messages, copied.bytes, copied.behind, copied.gaps
(2, 4, 0, [(6, 8)])
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thinwire.brokers.protocol_broker import Stored


@dataclass
class Copied:
    """What was copied of a topic in this run.

    since: the offset it began with; last: the last one recorded, in this run or before, 0 for none
    end: the last one the broker had when it was asked last
    gaps: first and last offsets of what the broker no longer had
    """

    topic: str
    since: int
    last: int
    end: int
    messages: int = 0
    bytes: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def behind(self) -> int:
        """Messages at the broker that are still to be copied."""
        return max(0, self.end - max(self.last, self.since - 1))

    def note(self, stored: Stored) -> tuple[int, int] | None:
        """A message was copied; the gap before it, where there is one."""
        expected = self.last + 1 if self.last else self.since
        self.last = stored.offset
        self.end = max(self.end, stored.offset)
        self.messages += 1
        self.bytes += len(stored.payload)
        if stored.offset == expected:
            return None
        self.gaps.append((expected, stored.offset - 1))
        return self.gaps[-1]
