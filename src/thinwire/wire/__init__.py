"""The wire format: frames, key frames, control frames, and bodies of partial events."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.wire.control_frames import Binding, Heartbeat, PredictorChange, Request, SuppressedRun, Switch
    from thinwire.wire.frame import WIRE_VERSION, Frame, FrameKind, join, read, seal, split
    from thinwire.wire.key_frame import KeyFrame, RoundPlace, SourceState, begins_round, bindings_in, place_in_round
    from thinwire.wire.partial_event import EncodingKind, ExplicitValues, Partial, lanes_of
    from thinwire.wire.stream_state import LinkState
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "control_frames": "Binding Heartbeat PredictorChange Request SuppressedRun Switch",
            "frame": "Frame FrameKind WIRE_VERSION join read seal split",
            "key_frame": "KeyFrame RoundPlace SourceState begins_round bindings_in place_in_round",
            "partial_event": "EncodingKind ExplicitValues Partial lanes_of",
            "stream_state": "LinkState",
        },
    )

__all__ = [
    "WIRE_VERSION",
    "Binding",
    "EncodingKind",
    "ExplicitValues",
    "Frame",
    "FrameKind",
    "Heartbeat",
    "KeyFrame",
    "LinkState",
    "Partial",
    "PredictorChange",
    "Request",
    "RoundPlace",
    "SourceState",
    "SuppressedRun",
    "Switch",
    "begins_round",
    "bindings_in",
    "join",
    "lanes_of",
    "place_in_round",
    "read",
    "seal",
    "split",
]
