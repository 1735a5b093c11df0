"""Frames of JSON in their order, the short way: a look at the header, the check, and what the body says.

Whatever is not as it nearly always is (another kind, another place, a dictionary that is not known, a body that is
none) is left as it was, for those who look more closely and can say what is wrong.
"""

from __future__ import annotations

from zlib import crc32

from thinwire.codec import frame_handlers_reading as reading
from thinwire.codec.decoder_state_replica import Replica
from thinwire.codec.deliveries import Delivery
from thinwire.errors import PeerFault
from thinwire.wire import FrameKind
from thinwire.wire.frame import LONG, MAX_FRAME, PACKED
from thinwire.wire.frame_packing import unpack
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, WIDE

_LONGEST_HEADER = 5
"""bytes"""


def take(replica: Replica, frames: list[bytes], number: int, out: list[Delivery]) -> None:
    """Add the events of the frames from this number on, as far as the short way goes; the sequence says how far.

    CorruptFrame: a value that its property cannot have, in the frame that the sequence has moved past last.
    """
    link, bindings, decode = replica.link, replica.bindings, replica.spelling.decode
    cells, wide = link.cells, link.cells[WIDE]
    sequence, chain = cells[SEQUENCE], cells[CHAIN]
    plain = FrameKind.JSON | LONG * wide | cells[INCARNATION] << 6
    starts = {plain: 3 + wide, plain | PACKED: 4 + wide}
    slot, codec = -1, None
    for place in range(number, len(frames)):
        raw = frames[place]
        if not _LONGEST_HEADER < len(raw) <= MAX_FRAME:
            return
        start = starts.get(raw[0])
        if start is None or raw[start - 2] != sequence & 0xFF or (wide and raw[start - 3] != sequence >> 8 & 0xFF):
            return
        body = raw[start:]
        after = crc32(body, crc32(raw[: start - 1], chain))
        if after & 0xFF != raw[start - 1]:
            return
        try:
            if raw[0] != plain:
                if raw[1] != slot:
                    slot = raw[1]
                    codec = bindings.codec(slot)
                body = unpack(body, slot, MAX_FRAME) if codec is None else codec.unpack(body, MAX_FRAME)
            given = decode(body, link.sources)
        except PeerFault:
            return
        sequence += 1
        chain = after
        cells[SEQUENCE], cells[CHAIN] = sequence, chain
        reading.spelled(replica, given, out)
