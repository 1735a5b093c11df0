"""A decoded log message as a list of steps that every channel of its publisher processes in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from thinwire.brokers.protocol import Stored
from thinwire.codec import Audit, Delivery, EventsMissed, Watermark
from thinwire.codec.decoder_state import DecoderState
from thinwire.schema import Event

Step = list[Event] | Watermark | Audit | DecoderState
"""consecutive events, a watermark, exact values, or the decoder state after a reconfiguration of the publisher"""


class DecodedMessage(NamedTuple):
    """The steps of a message.

    events: total number of events; -1 if decoding stopped at a gap, so that no channel position is after the message
    """

    offset: int
    time: float
    steps: list[Step]
    events: int

    @property
    def is_complete(self) -> bool:
        """Are there no gaps, so that channels continue after it?"""
        return self.events >= 0

    @property
    def decoded_events(self) -> int:
        """Number of events, up to the gap if there is one."""
        return sum(len(step) for step in self.steps if isinstance(step, list))


def decode_steps(
    stored: Stored, deliveries: Iterable[Delivery], before: DecoderState, after: DecoderState | None
) -> DecodedMessage:
    """Convert the deliveries of a message into steps.

    before, after: the decoder state before and after the message. If the publisher was reconfigured in it, channels
        switch to the new rules after the last event that was sent under the old ones.
    """
    steps: list[Step] = []
    decoder_state, events, is_complete = before, 0, True
    for delivery in deliveries:
        if isinstance(delivery, EventsMissed):
            is_complete = False
            break
        if not isinstance(delivery, Event):
            steps.append(delivery)
            continue
        if not decoder_state.has_bounds_of(delivery):
            if after is None or not (_is_reconfiguration(decoder_state, after) and after.has_bounds_of(delivery)):
                is_complete = False
                break
            decoder_state = after
            steps.append(after)
        if steps and isinstance(steps[-1], list):
            steps[-1].append(delivery)
        else:
            steps.append([delivery])
        events += 1
    if is_complete and after is not decoder_state:
        is_complete = after is not None and _is_reconfiguration(decoder_state, after)
        steps += [after] if is_complete and after is not None else []
    return DecodedMessage(stored.offset, stored.time, steps, events if is_complete else -1)


def _is_reconfiguration(before: DecoderState, after: DecoderState) -> bool:
    """Does the stream continue with another configuration and the same incarnation and schema?"""
    same = (before.incarnation, before.fingerprint) == (after.incarnation, after.fingerprint)
    return same and before.config_version < after.config_version and not after.rules.min_interval
