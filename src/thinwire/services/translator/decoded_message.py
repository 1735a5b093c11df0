"""A log message of one publisher as steps that every channel of the publisher processes in order."""

from __future__ import annotations

from typing import NamedTuple

from thinwire.codec import Audit, Watermark
from thinwire.codec.decoder_state import DecoderState
from thinwire.schema import Event

Step = list[Event] | Watermark | Audit | DecoderState
"""consecutive events, a watermark, exact values, or the decoder state after a reconfiguration of the publisher"""


class DecodedMessage(NamedTuple):
    """The steps of a message.

    events: number of events
    is_complete: False if decoding stopped at a gap; channels do not continue after the message
    """

    offset: int
    time: float
    steps: list[Step]
    events: int
    is_complete: bool
