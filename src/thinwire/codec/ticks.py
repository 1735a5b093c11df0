"""Limits of ticks, and codes of residuals.

A residual within the tolerance is not sent. A larger one is counted from the smallest residual that must be sent, in
bins of `2 * half + 1` ticks. The decoder uses the middle of the bin, so its value differs by at most `half` ticks. With
`half` equal to the tolerance, bins are as wide as the guarantee allows; with 0 residuals are exact.

>>> code = encode_residual(-7, tolerance=2, half=2)
>>> code, decode_residual(code, tolerance=2, half=2)
(1, -5)
"""

from __future__ import annotations

TICK_LIMIT = 1 << 61
"""largest tick; sums of three stay inside 64 bits"""

ABSENT = -(1 << 63)
"""in a slot: the property has no value"""

OFF_GRID = (1 << 63) - 1
"""in place of a tick: the value is not a multiple of its step and is sent exactly"""

UNSET = ABSENT
"""in a trend cell: there is no second value yet"""


def encode_residual(residual: int, tolerance: int, half: int) -> int:
    """Return the code of a residual beyond the tolerance: magnitude and sign in one number."""
    beyond = (residual if residual > 0 else -residual) - tolerance - 1
    if half:
        beyond //= 2 * half + 1
    return 2 * beyond if residual > 0 else 2 * beyond + 1


def decode_residual(code: int, tolerance: int, half: int) -> int:
    """Return the residual of a code."""
    magnitude = tolerance + 1 + half + (code >> 1) * (2 * half + 1)
    return -magnitude if code & 1 else magnitude
