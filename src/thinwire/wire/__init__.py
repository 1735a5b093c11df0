"""Partials as body bytes: `compact` for machines, `plain` (JSON) for people.

The bytes on the wire.
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.wire.control_frames import Binding, Change, Heartbeat, Request, Silence, Switch
    from thinwire.wire.frame import Frame, read, seal
    from thinwire.wire.frame_batch import join, split
    from thinwire.wire.frame_kinds import WIRE_VERSION, FrameKind
    from thinwire.wire.key_frame import KeyFrame, SourceState
    from thinwire.wire.key_frame_rounds import RoundPlace, begins_round, bindings_in, place_in_round
    from thinwire.wire.partial_event import Lane, lanes_of
    from thinwire.wire.partial_event_partial import Given, Partial
    from thinwire.wire.stream_state import LinkState
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "control_frames": "Binding Change Heartbeat Request Silence Switch",
            "frame": "Frame read seal",
            "frame_batch": "join split",
            "frame_kinds": "FrameKind WIRE_VERSION",
            "key_frame": "KeyFrame SourceState",
            "key_frame_rounds": "RoundPlace begins_round bindings_in place_in_round",
            "partial_event": "Lane lanes_of",
            "partial_event_partial": "Given Partial",
            "stream_state": "LinkState",
        },
    )

__all__ = [
    "WIRE_VERSION",
    "Binding",
    "Change",
    "Frame",
    "FrameKind",
    "Given",
    "Heartbeat",
    "KeyFrame",
    "Lane",
    "LinkState",
    "Partial",
    "Request",
    "RoundPlace",
    "Silence",
    "SourceState",
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
