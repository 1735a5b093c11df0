"""The wire format: frames, key frames, control frames, and bodies of partial events."""

from thinwire.wire.control_frames import Binding, Heartbeat, PredictorChange, Request, SuppressedRun, Switch
from thinwire.wire.frame import WIRE_VERSION, Frame, FrameKind, join, read, seal, split
from thinwire.wire.key_frame import KeyFrame, SourceState, begins_round, bindings_in, read_key_frame
from thinwire.wire.partial_event import EncodingKind, ExplicitValues, PartialEvent
from thinwire.wire.stream_state import StreamState

__all__ = [
    "WIRE_VERSION",
    "Binding",
    "EncodingKind",
    "ExplicitValues",
    "Frame",
    "FrameKind",
    "Heartbeat",
    "KeyFrame",
    "PartialEvent",
    "PredictorChange",
    "Request",
    "SourceState",
    "StreamState",
    "SuppressedRun",
    "Switch",
    "begins_round",
    "bindings_in",
    "join",
    "read",
    "read_key_frame",
    "seal",
    "split",
]
