"""What a frame can be."""

from __future__ import annotations

from enum import IntEnum

WIRE_VERSION = 1


class FrameKind(IntEnum):
    """The low four bits of a frame's first byte. Kinds not named here survive a reader untouched."""

    DATA = 1
    """the partial of one event, `compact`"""
    EXCEPTION = 2
    """as DATA, with values that travel by exception: absent, off the grid, out of range"""
    JSON = 3
    """the partial of one event as plain JSON"""
    KEY = 4
    """full state of some sources: where a reader can start"""
    INTRODUCTION = 5
    """a source never seen before, with its first event"""
    SWITCH = 6
    """a source's properties change their predictor"""
    HEARTBEAT = 7
    """watermark, full sequence, and what was passed over in silence"""
    AUDIT = 8
    """an event's exact values, to measure the promise with"""
    BATCH = 9
    """several frames in one message"""
    REQUEST = 10
    """a subscriber asks for a key frame"""
    BINDING = 12
    """a slot names a dictionary from here on"""
    PAYLOAD = 13
    """an event of a topic without a schema: any bytes"""


_KNOWN = frozenset(FrameKind)


def is_known(kind: int) -> bool:
    """Is this a kind of this version?"""
    return kind in _KNOWN
