"""Channels of one publisher with a `where` predicate: all predicates are matched at once.

A channel receives the events that match its predicate, predicted or not, because the absence of an event means that it
did not match. The ordinals in between are skipped before the next matching event. Watermarks, reconfigurations and key
frames cost time per channel; key frames are sent at the end of a message.
"""

from __future__ import annotations

from thinwire.filters.where.predicate_index import PredicateIndex
from thinwire.schema import Event
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_group import ChannelGroup, GroupMember
from thinwire.services.translator.decoded_message import DecodedMessage


class WhereGroup(ChannelGroup[GroupMember]):
    """The channels of one publisher whose classes have a `where` predicate."""

    def clear(self) -> None:
        super().clear()
        self._index = PredicateIndex[GroupMember]()

    def join(self, channel: Channel) -> None:
        assert channel.demand.predicate is not None
        member = GroupMember(channel, self._message_count)
        self._index.add(member, channel.demand.predicate)
        self._add(member)

    def _on_leave(self, member: GroupMember) -> None:
        self._index.remove(member)

    def _process_events(self, events: list[Event], message: DecodedMessage) -> None:
        for event, members in zip(events, self._index.match(events), strict=True):
            for member in members:
                if not member.is_closed and member.channel.covers(event.source):
                    self._send_event(member, event, message)
            self._event_index += 1

    def _send_event(self, member: GroupMember, event: Event, message: DecodedMessage) -> None:
        self._update_position(member)
        super()._send_event(member, event, message)

    def _finish_message(self, message: DecodedMessage) -> None:
        super()._finish_message(message)
        self._schedule.advance(message.time)
        for member in self._schedule.due(message.time):
            member.channel.send_due_key_frames(message.time)
        self._schedule.reschedule_all()
