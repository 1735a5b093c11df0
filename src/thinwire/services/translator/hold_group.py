"""Last-value channels (emit='changes') of one publisher, fed through one interval table per source.

The cost of an event is proportional to the number of channels that must send it, not to the number of channels. For
each channel, source and held property the table contains the interval of ticks that need no frame. A channel processes
an event only in these cases:

    a tick is outside of the channel's interval          the value changed
    another value changed, or a number has no tick       texts and flags have no intervals; all channels process it
    the channel is new, or has to send the next event    the next event needs a frame in any case
    no event was sent for MAX_SKIP events                a frame can skip only that many
    the channel's next key frame is due                  key frames are attached to an event

A channel may process more events than needed, never fewer: its own encoder decides what is sent.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from thinwire.codec import Audit, Watermark
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.kernels.slot_updates import warm_up_advance
from thinwire.codec.row_map import RowMap
from thinwire.errors import DemandError, EventRejected
from thinwire.filters.interval_table import IntervalTable, Workspace
from thinwire.schema import Event
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_group import ChannelGroup, KeyFrameSchedule, OnRejected
from thinwire.services.translator.decoded_message import DecodedMessage
from thinwire.services.translator.hold_member import HoldMember, Rows, SourceMembers, TickReader
from thinwire.topics.demand_class import Source

_INITIAL_ROWS = 64
_NO_ROWS: Rows = np.zeros(0, dtype=np.int64)
_MAX_CLOSED = 64
"""the tables are rebuilt if more members than this, and more than half of all, are closed"""


class SourceOrdinals:
    """The sources of one publisher and the ordinal of the last event of each, by row."""

    def __init__(self) -> None:
        self.rows: dict[Source, int] = {}
        self.ordinals: Rows = np.zeros(_INITIAL_ROWS, dtype=np.int64)
        self._rows_by_map: dict[int, tuple[RowMap, Rows]] = {}

    def row(self, source: Source, ordinal: int) -> int:
        """Return the row of a source; add a new source with this ordinal."""
        row = self.rows.get(source)
        if row is None:
            row = self.rows[source] = len(self.rows)
            if row == len(self.ordinals):
                self.ordinals = np.concatenate((self.ordinals, np.zeros_like(self.ordinals)))
            self.ordinals[row] = ordinal
        return row

    def find_rows(self, member: HoldMember) -> Rows:
        """Return the row in this table of each source of a member, by the member's rows. Cached per shared row map."""
        row_map, sources = member.reducer.row_map, member.reducer.keys
        _, rows = self._rows_by_map.get(id(row_map), (row_map, _NO_ROWS))
        if len(rows) < len(sources):
            ordinal = member.reducer.last_ordinal
            added = [self.row(sources[row], ordinal(row)) for row in range(len(rows), len(sources))]
            rows = np.concatenate((rows, np.array(added, dtype=np.int64)))
            self._rows_by_map[id(row_map)] = row_map, rows
        return rows


class HoldGroup(ChannelGroup[HoldMember]):
    """The last-value channels of one publisher."""

    def __init__(self, on_rejected: OnRejected) -> None:
        self._workspace = Workspace()
        super().__init__(on_rejected)

    def clear(self) -> None:
        super().clear()
        self._all_members: list[HoldMember] = []
        self._tick_reader: TickReader | None = None
        self._ordinals = SourceOrdinals()
        self._members_by_row: dict[int, SourceMembers] = {}

    def join(self, channel: Channel) -> None:
        assert channel.encoder is not None
        names = {p.name for p in channel.encoder.stream.schema.wire}
        known = self._tick_reader.names if self._tick_reader is not None else set()
        if self._tick_reader is None or not names <= known:
            self._tick_reader = TickReader(channel.encoder.log_schema, names | known)
            self._rebuild()
        member = HoldMember(channel, self._tick_reader.tick_indexes, self._message_count)
        self._all_members.append(member)
        self._add(member)

    def catch_up(self, channel: Channel) -> None:
        member = self._members[channel.demand.id]
        self._update_position(member)
        member.advance_all(self._ordinals.find_rows(member), self._ordinals.ordinals)

    def process(self, message: DecodedMessage) -> None:
        if len(self._all_members) - len(self._members) > max(_MAX_CLOSED, len(self._members)):
            self._rebuild()
        self._schedule.advance(message.time)
        super().process(message)

    def _process_events(self, events: list[Event], message: DecodedMessage) -> None:
        for event in events:
            self._process_event(event, message)
            self._event_index += 1

    def _process_event(self, event: Event, message: DecodedMessage) -> None:
        assert self._tick_reader is not None
        row = self._ordinals.row(event.source, event.ordinal - 1)
        members = self._members_of(row, event)
        reading = self._tick_reader.read(event)
        affected = members.find_affected(reading, bool(event.flags), event.ordinal - 1)
        affected += self._find_due(event, message.time, affected)
        for index, member in affected:
            if not member.is_closed:
                self._send_event(member, event, message)
            if index >= 0:
                members.update_intervals(index, member)
        self._ordinals.ordinals[row] = event.ordinal
        members.index_new_members(self._workspace, len(self._tick_reader.tick_indexes))

    def _members_of(self, row: int, event: Event) -> SourceMembers:
        members = self._members_by_row.get(row)
        if members is None:
            members = self._members_by_row[row] = SourceMembers(event.source)
        if members.joined_count < len(self._all_members):
            new = self._all_members[members.joined_count :]
            members.add([one for one in new if not one.is_closed and one.channel.covers(event.source)])
            members.joined_count = len(self._all_members)
        return members

    def _find_due(
        self, event: Event, now: float, affected: list[tuple[int, HoldMember]]
    ) -> list[tuple[int, HoldMember]]:
        """Return, with index -1, other members that cover the source and have a due key frame."""
        due = self._schedule.due(now)
        others = {id(member) for _, member in affected} if due else set()
        return [(-1, one) for one in due if id(one) not in others and one.channel.covers(event.source)]

    def _send_event(self, member: HoldMember, event: Event, message: DecodedMessage) -> None:
        is_due = member.stream.is_due(message.time)
        if is_due:
            self.catch_up(member.channel)
        else:
            self._update_position(member)
            row = member.reducer.row_of(event.source)
            if row is not None:
                member.advance_to(row, event.ordinal - 1)
        try:
            member.channel.encode_event(event, message)
        except (DemandError, EventRejected) as problem:
            self._reject(member, problem, message.time)
            return
        if is_due:
            self._schedule.reschedule(member)

    def _process_step(self, step: Watermark | Audit | DecoderState, message: DecodedMessage) -> None:
        super()._process_step(step, message)
        if isinstance(step, DecoderState):  # the rules changed, and with them all intervals
            self._rebuild()

    def _rebuild(self) -> None:
        """Build all tables again without closed members."""
        assert self._tick_reader is not None
        indexes = self._tick_reader.tick_indexes
        self._all_members = [HoldMember(one.channel, indexes, one.joined_after) for one in self._members.values()]
        self._members = {member.channel.demand.id: member for member in self._all_members}
        self._members_by_row.clear()
        self._schedule = KeyFrameSchedule[HoldMember]()
        for member in self._all_members:
            self._schedule.schedule(member)


@cache
def warm_up_hold_group() -> None:
    """Compile the kernels of hold groups, once per process."""
    table = IntervalTable(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    table.put(int(table.outside(1)[0]), 0, 0)
    warm_up_advance()
