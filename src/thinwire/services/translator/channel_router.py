"""Passes the messages of one publisher to its channels: through a group if there is one, to other channels one by one.

A group feeds many channels with one pass over a message. To add a kind of group, write a subclass of `ChannelGroup` and
a function that reports whether a group can feed a channel, and add them to `ChannelRouter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from thinwire.codec.predictors.arithmetic import FINE, LAST
from thinwire.errors import DemandError, EventRejected
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_group import ChannelGroup, OnRejected
from thinwire.services.translator.decoded_message import DecodedMessage
from thinwire.services.translator.where_group import WhereGroup
from thinwire.wire.partial_event import EncodingKind


@dataclass
class _GroupSlot:
    """A kind of group.

    can_feed: reports whether a group can feed a channel, which encodes
    create: creates the group of the publisher
    min_size: number of channels from which a group is used
    waiting: channels that are processed one by one until there are enough of them
    """

    can_feed: Callable[[Channel], bool]
    create: Callable[[OnRejected], ChannelGroup[Any]]
    min_size: int
    group: ChannelGroup[Any] | None = None
    waiting: dict[str, Channel] = field(default_factory=dict)


class ChannelRouter:
    """The channels of one publisher, by the way in which they are fed.

    on_rejected: called with a channel that cannot encode a message, after it has left its group
    min_hold_group: see `MIN_HOLD_GROUP`
    """

    def __init__(self, on_rejected: OnRejected, min_hold_group: int) -> None:
        self._on_rejected = on_rejected
        self._ungrouped: dict[str, Channel] = {}
        self._slots = [
            _GroupSlot(_has_predicate, WhereGroup, 1),
            _GroupSlot(_can_hold, _create_hold_group, min_hold_group),
        ]

    def add(self, channel: Channel) -> None:
        """Add a channel. It is processed alone until `assign_group` is called."""
        self._ungrouped[channel.demand.id] = channel

    def remove(self, channel: Channel) -> None:
        """Remove a channel, brought up to date."""
        self._ungrouped.pop(channel.demand.id, None)
        for slot in self._slots:
            slot.waiting.pop(channel.demand.id, None)
            if slot.group is not None:
                slot.group.leave(channel)

    def clear(self, channels: Mapping[str, Channel]) -> None:
        """Remove all channels from their groups; `channels` are processed alone until they encode again."""
        for slot in self._slots:
            slot.waiting.clear()
            if slot.group is not None:
                slot.group.clear()
        self._ungrouped = dict(channels)

    def catch_up(self) -> None:
        """Bring all grouped channels up to date."""
        for slot in self._slots:
            if slot.group is not None:
                slot.group.catch_up_all()

    def assign_group(self, channel: Channel) -> None:
        """Move a channel to the first group that can feed it, unless it does not encode yet."""
        slot = next((slot for slot in self._slots if channel.is_encoding and slot.can_feed(channel)), None)
        if slot is None:
            return
        slot.waiting[channel.demand.id] = channel
        if slot.group is None and len(slot.waiting) >= slot.min_size:
            slot.group = slot.create(self._on_rejected)
        if slot.group is not None:
            for name, waiting in slot.waiting.items():
                del self._ungrouped[name]
                slot.group.join(waiting)
            slot.waiting.clear()

    def process(self, message: DecodedMessage) -> None:
        """Pass a message to all channels that have begun."""
        for slot in self._slots:
            if slot.group is not None:
                slot.group.process(message)
        for channel in list(self._ungrouped.values()):
            if channel.encoder is None:
                continue
            was_skipping = not channel.is_encoding
            try:
                channel.process(message)
            except (DemandError, EventRejected) as problem:
                self._on_rejected(channel, problem, message.time)
            if was_skipping:
                self.assign_group(channel)


def _has_predicate(channel: Channel) -> bool:
    return channel.demand.predicate is not None


def _can_hold(channel: Channel) -> bool:
    """Report whether a hold group can decide which events the channel suppresses.

    Every tick property must be held or sent with every change, and no value may change without an event except time.
    """
    if channel.encoder is None or find_spec("numba") is None:
        return False
    rules = channel.encoder.stream.rules
    ticks = [rule for rule in rules.rules if rule.encoding is EncodingKind.TICK]
    held = [rule for rule in ticks if rules.triggers(rule)]
    is_constant = not any(rule.property.period or rule.auto for rule in ticks)
    return rules.changes and is_constant and bool(held) and all(rule.mode & ~FINE == LAST for rule in held)


def _create_hold_group(on_rejected: OnRejected) -> ChannelGroup[Any]:
    from thinwire.services.translator.hold_group import HoldGroup  # its compiled kernels take half a second to load

    return HoldGroup(on_rejected)
