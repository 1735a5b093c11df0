"""Base of the groups that feed many channels of one publisher with one pass over each message.

A group selects, for each event, the channels that must process it. The other channels are brought up to date when they
are next used. Their frames are the same as if they had processed every event.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from thinwire.codec import Audit, StreamEncoder, Watermark
from thinwire.codec.decoder_state import DecoderState
from thinwire.errors import DemandError, EventRejected
from thinwire.schema import Event
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.decoded_message import DecodedMessage

OnRejected = Callable[[Channel, DemandError | EventRejected, float], None]


class GroupMember:
    """A channel in a group.

    joined_after: number of messages that the group had completed when the channel joined
    is_closed: the channel has left the group
    """

    __slots__ = ("channel", "is_closed", "joined_after", "stream")

    def __init__(self, channel: Channel, joined_after: int) -> None:
        assert channel.encoder is not None
        self.channel = channel
        self.stream: StreamEncoder = channel.encoder.stream
        self.joined_after = joined_after
        self.is_closed = False


M = TypeVar("M", bound=GroupMember)


class KeyFrameSchedule(Generic[M]):
    """Members of a group ordered by the time of their next key frame.

    A key frame is attached to the next event of a stream. A channel with a due key frame must therefore process that
    event, even if no value changed.
    """

    def __init__(self) -> None:
        self._upcoming: list[tuple[float, int, M]] = []  # a heap; the counter breaks ties
        self._due: list[M] = []
        self._counter = count()

    def schedule(self, member: M) -> None:
        """Schedule the next key frame of a member."""
        heappush(self._upcoming, (member.stream.due, next(self._counter), member))

    def advance(self, now: float) -> None:
        """Move every member whose key frame is due at `now` to the due list."""
        while self._upcoming and self._upcoming[0][0] <= now:
            self._due.append(heappop(self._upcoming)[2])

    def due(self, now: float) -> list[M]:
        """Return the due members. Members that have sent key frames on request meanwhile are scheduled again."""
        due, self._due = self._due, []
        for member in due:
            if not member.is_closed and member.stream.is_due(now):
                self._due.append(member)
            elif not member.is_closed:
                self.schedule(member)
        return self._due

    def reschedule(self, member: M) -> None:
        """Remove a member from the due list after its key frame was sent, and schedule the next one."""
        self._due = [other for other in self._due if other is not member]
        self.schedule(member)

    def reschedule_all(self) -> None:
        """Schedule the next key frame of all due members, which have sent their key frames."""
        sent, self._due = self._due, []
        for member in sent:
            self.schedule(member)


class ChannelGroup(Generic[M]):
    """Channels of one publisher that are fed together.

    on_rejected: called with a channel that cannot encode an event, after it has left the group
    """

    def __init__(self, on_rejected: OnRejected) -> None:
        self._on_rejected = on_rejected
        self._members: dict[str, M] = {}
        self.clear()

    def clear(self) -> None:
        """Remove all channels."""
        for member in self._members.values():
            member.channel.group = None
        self._members.clear()
        self._schedule = KeyFrameSchedule[M]()
        self._pending_requests: dict[str, Channel] = {}
        self._message_count = self._last_offset = self._event_index = 0

    def join(self, channel: Channel) -> None:
        """Add a channel, between two messages."""
        raise NotImplementedError

    def leave(self, channel: Channel) -> None:
        """Remove a channel, brought up to date, if it is a member."""
        member = self._members.get(channel.demand.id)
        if member is None or member.channel is not channel:
            return
        self.catch_up(channel)
        del self._members[channel.demand.id]
        self._pending_requests.pop(channel.demand.id, None)
        member.is_closed, channel.group = True, None
        self._on_leave(member)

    def catch_up(self, channel: Channel) -> None:
        """Bring a channel to the state that it would have after processing every event."""
        self._update_position(self._members[channel.demand.id])

    def catch_up_all(self) -> None:
        """Bring all channels up to date."""
        for member in self._members.values():
            self.catch_up(member.channel)

    def add_pending_request(self, channel: Channel) -> None:
        """Request key frames of a channel at the end of the next message."""
        self._pending_requests[channel.demand.id] = channel

    def process(self, message: DecodedMessage) -> None:
        """Feed the channels with a message."""
        if not self._members:
            return
        self._event_index = 0
        for step in message.steps:
            if isinstance(step, list):
                self._process_events(step, message)
            else:
                self._process_step(step, message)
        if message.is_complete:
            self._finish_message(message)

    def _add(self, member: M) -> None:
        channel = member.channel
        self._members[channel.demand.id] = member
        channel.group = self
        if channel.has_pending_request:
            self.add_pending_request(channel)
        self._schedule.schedule(member)

    def _on_leave(self, member: M) -> None:
        """Remove a member from the indexes of the group."""

    def _process_events(self, events: list[Event], message: DecodedMessage) -> None:
        """Feed events to the channels that must process them."""
        raise NotImplementedError

    def _send_event(self, member: M, event: Event, message: DecodedMessage) -> None:
        try:
            member.channel.encode_event(event, message)
        except (DemandError, EventRejected) as problem:
            self._reject(member, problem, message.time)

    def _process_step(self, step: Watermark | Audit | DecoderState, message: DecodedMessage) -> None:
        for member in list(self._members.values()):
            self.catch_up(member.channel)
            try:
                member.channel.process_step(step, message)
            except (DemandError, EventRejected) as problem:
                self._reject(member, problem, message.time)

    def _reject(self, member: M, problem: DemandError | EventRejected, now: float) -> None:
        self.leave(member.channel)
        self._on_rejected(member.channel, problem, now)

    def _update_position(self, member: M) -> None:
        """Set the position of a channel. Its offset changes only after a message has ended since it joined."""
        offset = self._last_offset if member.joined_after != self._message_count else None
        member.channel.set_position(self._event_index, offset)

    def _finish_message(self, message: DecodedMessage) -> None:
        self._last_offset, self._event_index = message.offset, 0
        self._message_count += 1
        requested, self._pending_requests = self._pending_requests, {}
        for channel in requested.values():
            if channel.has_pending_request:  # a later request may have been answered meanwhile
                channel.request_key_frames(message.time)
