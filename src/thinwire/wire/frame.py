"""A frame: a header of at most four bytes, and a body.

    head | [slot] | sequence, 1 or 2 bytes | check | body

The head byte holds the kind (4 bits), whether the sequence is wide, whether the body is packed (then the slot follows:
0 is deflate, others name a dictionary), and the low two bits of the incarnation. The check is the low byte of a
running CRC-32 over every frame since the last key frame, this one included: it fails when a frame was lost, altered,
added, or belongs to another life of its publisher.

>>> frame, chain = seal(1, b"body", sequence=258, chain=7)
>>> frame.hex(), len(frame)
('010270626f6479', 7)
>>> read(frame).body
b'body'
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from thinwire.errors import CorruptFrame
from thinwire.wire.frame_packing import unpack

MAX_FRAME = 1 << 20
"""bytes of a frame, at most"""

LONG = 0x10
"""of the head byte: the sequence has two bytes"""
PACKED = 0x20
"""of the head byte: the body is packed, and a slot follows"""


class Frame(NamedTuple):
    """A frame taken apart; `raw` is what travelled."""

    kind: int
    incarnation: int
    wide: bool
    slot: int | None
    sequence: int
    check: int
    raw: bytes

    @property
    def body(self) -> bytes:
        """The body, unpacked. Ask for it once the check has been found right: unpacking is work that a liar could
        make somebody do. What is packed with a dictionary only a link can unpack, which knows the bindings."""
        return self.carried if self.slot is None else unpack(self.carried, self.slot, MAX_FRAME)

    @property
    def carried(self) -> bytes:
        """The body as it travelled."""
        return self.raw[self.header_size :]

    def chain_after(self, chain: int) -> int:
        """The running check after this frame; its low byte must equal `check`."""
        return _crc(self.raw, self.header_size, chain)

    @property
    def header_size(self) -> int:
        return 3 + self.wide + (self.slot is not None)


def seal(
    kind: int,
    body: bytes,
    *,
    sequence: int,
    chain: int,
    incarnation: int = 0,
    wide: bool = False,
    slot: int | None = None,
) -> tuple[bytes, int]:
    """The bytes of a frame and the running check after it. `body` is what travels: packed already if it has a slot."""
    head = kind | (incarnation & 3) << 6
    if slot is None and not wide:
        front = bytes((head, sequence & 0xFF))
    else:
        width = 2 if wide else 1
        head |= LONG * wide | PACKED * (slot is not None)
        named = (head,) if slot is None else (head, slot)
        front = bytes(named) + (sequence & (1 << 8 * width) - 1).to_bytes(width, "big")
    chain = crc32(body, crc32(front, chain))
    return b"%b%c%b" % (front, chain & 0xFF, body), chain


def read(raw: bytes) -> Frame:
    """Take a frame apart. Raises CorruptFrame where the bytes cannot be one."""
    if len(raw) < 3:
        raise CorruptFrame("shorter than a header", length=len(raw))
    if len(raw) > MAX_FRAME:
        raise CorruptFrame("longer than a frame may be", length=len(raw), limit=MAX_FRAME)
    head = raw[0]
    wide = bool(head & LONG)
    packed = head & PACKED
    at = 2 if packed else 1
    end = at + 1 + wide
    if len(raw) <= end:
        raise CorruptFrame("header cut off", length=len(raw))
    slot = raw[1] if packed else None
    return Frame(head & 0x0F, head >> 6, wide, slot, int.from_bytes(raw[at:end], "big"), raw[end], raw)


def _crc(raw: bytes, header_size: int, chain: int) -> int:
    return crc32(raw[header_size:], crc32(raw[: header_size - 1], chain))


def detach(raw: bytes) -> tuple[bytes, bytes]:
    """Header and body apart, for brokers whose messages have headers of their own; joined again they are the frame."""
    size = read(raw).header_size
    return raw[:size], raw[size:]
