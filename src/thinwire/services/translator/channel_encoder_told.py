"""What a message of the log brings, in steps that every channel of its publisher goes through alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from thinwire.brokers.protocol_broker import Stored
from thinwire.codec import Audit, Delivery, Missed, Watermark
from thinwire.codec.decoder_state_replica import Replica
from thinwire.schema import Event

Step = list[Event] | Watermark | Audit | Replica
"""events, that all is told up to a time, exact values, or that the log has other rules now"""


class Told(NamedTuple):
    """A message, step by step.

    events: how many there are in all; -1 where the message breaks off, so that it is never told to its end
    """

    offset: int
    time: float
    steps: list[Step]
    events: int

    @property
    def whole(self) -> bool:
        """Can a channel go on after it?"""
        return self.events >= 0

    @property
    def encoded(self) -> int:
        """The events that came before it broke off, if it does."""
        return sum(len(step) for step in self.steps if isinstance(step, list))


def told(stored: Stored, found: Iterable[Delivery], before: Replica, after: Replica | None) -> Told:
    """What a decoder made of a message, as steps.

    before, after: the decoder's state. Where it is another one, the publisher may have been told to do otherwise: then
        channels go over to the new rules after the last event told under the old ones
    """
    steps: list[Step] = []
    replica, events, whole = before, 0, True
    for thing in found:
        if isinstance(thing, Missed):
            whole = False
            break
        if not isinstance(thing, Event):
            steps.append(thing)
            continue
        if not _is_under(thing, replica):
            if after is None or not (_goes_over(replica, after) and _is_under(thing, after)):
                whole = False
                break
            replica = after
            steps.append(after)
        if steps and isinstance(steps[-1], list):
            steps[-1].append(thing)
        else:
            steps.append([thing])
        events += 1
    if whole and after is not replica:
        whole = after is not None and _goes_over(replica, after)
        steps += [after] if whole and after is not None else []
    return Told(stored.offset, stored.time, steps, events if whole else -1)


def _is_under(event: Event, replica: Replica) -> bool:
    """Was the event told under the rules of this replica, and are its bounds claimed?"""
    bound, expander = event.bound, replica.expander
    return bound is expander.bounds or bound is expander.silent_bounds


def _goes_over(before: Replica, after: Replica) -> bool:
    """Does a link go on with another configuration, and nothing else?"""
    same = (before.incarnation, before.fingerprint) == (after.incarnation, after.fingerprint)
    return same and before.config_version < after.config_version and not after.expander.rules.min_interval
