"""The bytes on the wire."""

from thinwire.frames.batch import join, split
from thinwire.frames.control import Change, Heartbeat, Request, Silence, Switch
from thinwire.frames.frame import Frame, read, seal
from thinwire.frames.keys import KeyFrame, SourceState
from thinwire.frames.kinds import WIRE_VERSION, FrameKind

__all__ = [
    "WIRE_VERSION",
    "Change",
    "Frame",
    "FrameKind",
    "Heartbeat",
    "KeyFrame",
    "Request",
    "Silence",
    "SourceState",
    "Switch",
    "join",
    "read",
    "seal",
    "split",
]
