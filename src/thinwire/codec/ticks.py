"""The numbers every kernel agrees on.

Residuals: what a number is off its prediction, as a code.

Within the tolerance nothing travels. Beyond it, the magnitude is counted from the first value that had to travel, in
bins of `2 * half + 1` ticks, and the receiver takes the middle of the bin: it is off by `half` ticks at most. With
`half` equal to the tolerance the value travels as coarsely as the promise allows; with 0 it travels exactly.

>>> code = encode(-7, tolerance=2, half=2)
>>> code, decode(code, tolerance=2, half=2)
(1, -5)
"""

from __future__ import annotations

TICK_LIMIT = 1 << 61
"""a tick is at most this large: sums of three stay inside 64 bits"""

ABSENT = -(1 << 63)
"""in a state column: the property has no value"""

OFF_GRID = (1 << 63) - 1
"""in place of a tick: the value is no multiple of its step and travels as it is"""

UNSET = ABSENT
"""in a trend column: no second value has been seen yet"""


def encode(residual: int, tolerance: int, half: int) -> int:
    """The code of a residual beyond the tolerance: magnitude and sign in one number."""
    beyond = (residual if residual > 0 else -residual) - tolerance - 1
    if half:
        beyond //= 2 * half + 1
    return 2 * beyond if residual > 0 else 2 * beyond + 1


def decode(code: int, tolerance: int, half: int) -> int:
    """The residual a code stands for."""
    magnitude = tolerance + 1 + half + (code >> 1) * (2 * half + 1)
    return -magnitude if code & 1 else magnitude
