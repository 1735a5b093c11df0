"""A log message of one publisher as steps that every channel of the publisher processes in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from thinwire.brokers.protocol import StoredMessage
from thinwire.codec import Audit, Delivery, EventsMissed, Watermark
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


def decode_steps(
    stored: StoredMessage,
    publisher: str,
    deliveries: Iterable[Delivery],
    before: DecoderState,
    after: DecoderState | None,
) -> DecodedMessage:
    """Convert the deliveries of a message into steps.

    before, after: the decoder state before and after the message. If the publisher was reconfigured in it, channels
        switch to the new rules after the last event that was sent under the old ones.
    """
    steps: list[Step] = []
    state, events, is_complete = before, 0, True
    for delivery in deliveries:
        if isinstance(delivery, EventsMissed):
            if delivery.publisher != publisher:
                continue
            is_complete = False
            break
        if not isinstance(delivery, Event):
            steps.append(delivery)
            continue
        if not state.has_bounds_of(delivery):  # decoded under other rules
            if after is None or not (_is_reconfiguration(state, after) and after.has_bounds_of(delivery)):
                is_complete = False
                break
            state = after
            steps.append(after)
        if steps and isinstance(steps[-1], list):
            steps[-1].append(delivery)
        else:
            steps.append([delivery])
        events += 1
    if is_complete and after is not state:
        is_complete = after is not None and _is_reconfiguration(state, after)
        steps += [after] if is_complete and after is not None else []
    return DecodedMessage(stored.offset, stored.time, steps, events, is_complete)


def _is_reconfiguration(before: DecoderState, after: DecoderState) -> bool:
    """Report whether only the configuration changed, to one that omits no events (`min_interval`)."""
    same = (before.incarnation, before.fingerprint) == (after.incarnation, after.fingerprint)
    return same and before.config_version < after.config_version and not after.rules.min_interval
