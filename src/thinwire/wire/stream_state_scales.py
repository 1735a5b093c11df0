"""Scales: how large a field's codes have been lately, so that they are written in fitting widths.

A code `z` is written in Exp-Golomb of order `k`: with `v = z + 2^k` of `n` bits, `n - 1 - k` zero bits and then `v`.
The order follows a running mean of the field's codes, kept in sixteenths and equal on both sides.

>>> level = 0
>>> for z in (40, 44, 41, 39): level = adapt(level, z)
>>> order(level)
3
"""

from __future__ import annotations

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
