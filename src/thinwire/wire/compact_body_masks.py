"""Which properties travel, in bits.

Up to eight properties: one bit each, the first property highest. More: one bit for each group of eight that has any,
then the bits of those groups.

>>> bits, width = encode(0b1, 3)
>>> f"{bits:0{width}b}"
'100'
>>> bits, width = encode(1 << 9, 20)
>>> f"{bits:0{width}b}"
'01001000000'
"""

from __future__ import annotations

GROUP = 8
_REVERSED = [int(f"{n:08b}"[::-1], 2) for n in range(256)]


def encode(mask: int, count: int) -> tuple[int, int]:
    """The bits of a mask over `count` properties, and how many they are."""
    if count <= GROUP:
        return _REVERSED[mask] >> (GROUP - count), count
    groups = (count + GROUP - 1) // GROUP
    bits, width = 0, groups
    for group in range(groups):
        part = mask >> GROUP * group & 0xFF
        if part:
            size = min(GROUP, count - GROUP * group)
            bits = (bits | 1 << (width - 1 - group)) << size | _REVERSED[part] >> (GROUP - size)
            width += size
    return bits, width


def decode(bits: int, width: int, count: int) -> tuple[int, int]:
    """The mask at the top of `width` bits, and how many bits are left. Raises ValueError when they run out."""
    if count <= GROUP:
        left = width - count
        return _REVERSED[(bits >> left) << (GROUP - count)], left
    groups = (count + GROUP - 1) // GROUP
    left = width - groups
    present = bits >> left
    mask = 0
    for group in range(groups):
        if present >> (groups - 1 - group) & 1:
            size = min(GROUP, count - GROUP * group)
            left -= size
            part = bits >> left & (1 << size) - 1
            mask |= _REVERSED[part << (GROUP - size)] << GROUP * group
    return mask, left
