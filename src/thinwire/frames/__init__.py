"""The bytes on the wire."""

from thinwire.frames.batch import join, split
from thinwire.frames.control import Binding, Change, Heartbeat, Request, Silence, Switch
from thinwire.frames.frame import Frame, read, seal
from thinwire.frames.keys import KeyFrame, SourceState
from thinwire.frames.kinds import WIRE_VERSION, FrameKind
from thinwire.frames.rounds import RoundPlace, begins_round, bindings_in, place_in_round

__all__ = [
    "WIRE_VERSION",
    "Binding",
    "Change",
    "Frame",
    "FrameKind",
    "Heartbeat",
    "KeyFrame",
    "Request",
    "RoundPlace",
    "Silence",
    "SourceState",
    "Switch",
    "begins_round",
    "bindings_in",
    "join",
    "place_in_round",
    "read",
    "seal",
    "split",
]
