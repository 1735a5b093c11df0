"""Which messages of a stream a sampler looks at: all at first, few in the end, and many in a row where it must learn.

As many for every doubling of the stream, so that what is seen too late is never more than a share of it.

>>> pace = Pace()
>>> looked_at = []
>>> for number in range(1, 300_001):
...     pace.seen = number
...     if number == pace.next:
...         looked_at.append(number)
...         pace.go_on()
...     pace.calm = number > 2_000
>>> looked_at[:3], 3_500 < len(looked_at) < 4_500
([1, 2, 3], True)
"""

from __future__ import annotations

DENSE, STRIDE = 1000, 256
"""one message in so many thousands seen is looked at, one in `STRIDE` in the end"""


class Pace:
    """How far a stream has come.

    seen: its messages so far; next: the number of the one that is looked at next
    gathering: messages in a row that are still wanted; calm: half as many as usual will do
    """

    def __init__(self) -> None:
        self.seen = 0
        self.next = 1
        self.gathering = 0
        self.calm = False

    @property
    def stride(self) -> int:
        """One message in so many is looked at now."""
        return int(min(STRIDE, self.seen // DENSE + 1))

    def go_on(self) -> None:
        """To the next message that is looked at: at no period, so that no periodic stream hides from it."""
        if self.gathering:
            self.gathering -= 1
            self.next = self.seen + 1
            return
        span = self.stride * (4 if self.calm else 2) - 1
        self.next = self.seen + 1 + self.seen * 2654435761 % 2**32 * span // 2**32
