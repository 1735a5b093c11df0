"""Many channels of changes fed as one: an event costs as much as there are who must be told, not as there are.

Each says within which ticks the next event of a source says nothing new to it, and is shown only events that leave
them. All others it passes over unseen, and catches up when it is next asked anything: so whatever it says is, bit for
bit, what it would have said had it looked at every event. Whoever may have to look is shown too much rather than too
little: its own gate decides.

    who must look at an event                           why
    those whose interval a measurement leaves           a change
    all, where anything else has changed or is odd      texts and flags have no intervals
    newcomers, and those who were told an odd value     the next event is due in any case
    those not told of any event for very long           a link counts only so many silent ones
    those who owe the next part of their key frames     it follows on an event

Sources as many channels know them: one row each, and where the rows of every roster are among them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from thinwire.codec import Audit, Watermark
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.kernels.slot_updates import pass_all, pass_one
from thinwire.codec.source_table import FIELDS, HEAD, Roster
from thinwire.errors import DemandError, EventRejected
from thinwire.filters.interval_table import Desk, IntervalLine
from thinwire.schema import Event, Schema
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_encoder import DecodedMessage
from thinwire.services.translator.hold_member import HoldMember, Places, SourceHolders, TickReader
from thinwire.services.translator.key_frame_schedule import KeyFrameSchedule
from thinwire.topics.demand_class import Source

_FIRST = 64
_NOWHERE: Places = np.zeros(0, dtype=np.int64)


class Rosters:
    """The sources of one publisher, and the number of the last event of each."""

    def __init__(self) -> None:
        self.rows: dict[Source, int] = {}
        self.seen: Places = np.zeros(_FIRST, dtype=np.int64)
        self._places: dict[int, tuple[Roster, Places]] = {}

    def row(self, source: Source, ordinal: int) -> int:
        """The row of a source; ordinal: of its last event, where nobody has met it yet."""
        row = self.rows.get(source)
        if row is None:
            row = self.rows[source] = len(self.rows)
            if row == len(self.seen):
                self.seen = np.concatenate((self.seen, np.zeros_like(self.seen)))
            self.seen[row] = ordinal
        return row

    def places(self, holder: HoldMember) -> Places:
        """Where the rows of a holder are; found once for all that share a roster."""
        roster = holder.link.encoder.reducer.roster
        _, known = self._places.get(id(roster), (roster, _NOWHERE))
        keys = holder.sources
        if len(known) < len(keys):
            more = [self.row(keys[row], holder.ordinal(row)) for row in range(len(known), len(keys))]
            known = np.concatenate((known, np.array(more, dtype=np.int64)))
            self._places[id(roster)] = roster, known
        return known


Refused = Callable[[Channel, DemandError | EventRejected, float], None]

_GONE = 64
"""holders that are gone, at least, before they are cleared away"""


class HoldGroup:
    """The channels of one publisher that are fed as one.

    refused: is told of a channel that cannot take an event in; it is out by then
    """

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._desk = Desk()
        self._holders: dict[str, HoldMember] = {}
        self.clear()

    def clear(self) -> None:
        """Nobody is in step any more."""
        for holder in self._holders.values():
            holder.channel.keeper = None
        self._holders.clear()
        self._joined: list[HoldMember] = []
        self._tick_reader: TickReader | None = None
        self._rosters = Rosters()
        self._lines: dict[int, SourceHolders] = {}
        self._key_frame_schedule = KeyFrameSchedule[HoldMember]()
        self._due: dict[str, Channel] = {}
        self._messages = self._offset = self._within = 0

    def join(self, channel: Channel, schema: Schema) -> None:
        """Between two messages: feed this one too. schema: the publisher's"""
        watched = {p.name for p in channel.asked.schema(schema).wire}
        if self._tick_reader is None or not watched <= self._tick_reader.watched:
            self._tick_reader = TickReader(
                schema, watched | (self._tick_reader.watched if self._tick_reader is not None else set())
            )
            self._start_over()
        holder = self._holders[channel.asked.id] = HoldMember(channel, self._tick_reader.names, self._messages)
        self._joined.append(holder)
        channel.keeper = self
        if channel.owes:
            self.owes(channel)
        self._key_frame_schedule.schedule(holder)

    def leave(self, channel: Channel) -> None:
        """Feed this one no more, if it was fed: it has seen everything then."""
        holder = self._holders.get(channel.asked.id)
        if holder is None or holder.channel is not channel:
            return
        self.catch_up(channel)
        del self._holders[channel.asked.id]
        self._due.pop(channel.asked.id, None)
        holder.gone, channel.keeper = True, None

    def catch_up(self, channel: Channel) -> None:
        """Let a channel stand where it would, had it looked at every event."""
        holder = self._holders[channel.asked.id]
        self._place(holder)
        holder.pass_all(self._rosters.places(holder), self._rosters.seen)

    def catch_up_all(self) -> None:
        """The same for all."""
        for holder in self._holders.values():
            self.catch_up(holder.channel)

    def owes(self, channel: Channel) -> None:
        """A channel has to answer at the end of the next message."""
        self._due[channel.asked.id] = channel

    def take_in(self, told: DecodedMessage) -> None:
        """What a message brings."""
        if len(self._joined) - len(self._holders) > max(_GONE, len(self._holders)):
            self._start_over()
        if not self._holders:
            return
        self._within = 0
        self._key_frame_schedule.advance(told.time)
        for step in told.steps:
            if isinstance(step, list):
                for event in step:
                    self._show(event, told)
                    self._within += 1
            else:
                self._pass_on(step, told)
        if told.whole:
            self._end(told)

    def _show(self, event: Event, told: DecodedMessage) -> None:
        """An event, to those who must look at it."""
        assert self._tick_reader is not None
        row = self._rosters.row(event.source, event.ordinal - 1)
        line = self._line(row, event)
        reading = self._tick_reader.read(event)
        whom = line.find_affected(reading, bool(event.flags), event.ordinal - 1)
        whom += self._those_pressing(event, told.time, whom)
        for place, holder in whom:
            if not holder.gone:
                self._send_event(holder, event, told)
            if place >= 0:
                line.moved(place, holder)
        self._rosters.seen[row] = event.ordinal
        line.place_newcomers(self._desk, len(self._tick_reader.names))

    def _line(self, row: int, event: Event) -> SourceHolders:
        line = self._lines.get(row)
        if line is None:
            line = self._lines[row] = SourceHolders(event.source)
        if line.met < len(self._joined):
            line.add_members([h for h in self._joined[line.met :] if not h.gone and h.channel.takes(event.source)])
            line.met = len(self._joined)
        return line

    def _those_pressing(
        self, event: Event, now: float, whom: list[tuple[int, HoldMember]]
    ) -> list[tuple[int, HoldMember]]:
        """Those who owe key frames, tell of this source, and do not look at the event anyway."""
        pressing = self._key_frame_schedule.due(now)
        others = {id(holder) for _, holder in whom} if pressing else set()
        return [(-1, h) for h in pressing if id(h) not in others and h.channel.takes(event.source)]

    def _send_event(self, holder: HoldMember, event: Event, told: DecodedMessage) -> None:
        due = holder.link.is_due(told.time)
        if due:
            self.catch_up(holder.channel)
        else:
            self._place(holder)
            row = holder.row_of(event.source)
            if row is not None:
                holder.pass_to(row, event.ordinal - 1)
        try:
            holder.channel.encode_event(event, told)
        except (DemandError, EventRejected) as problem:
            self._lose(holder, problem, told.time)
            return
        if due:
            self._key_frame_schedule.reschedule(holder)

    def _place(self, holder: HoldMember) -> None:
        """A channel learns how far it has told, unless it has told nothing of a message to its end yet."""
        offset = self._offset if holder.joined != self._messages else None
        holder.channel.stand_at(self._within, offset)

    def _pass_on(self, step: Watermark | Audit | DecoderState, told: DecodedMessage) -> None:
        for holder in list(self._holders.values()):
            self.catch_up(holder.channel)
            try:
                holder.channel.process_step(step, told)
            except (DemandError, EventRejected) as problem:
                self._lose(holder, problem, told.time)
        if isinstance(step, DecoderState):  # everybody holds everything by other rules now
            self._start_over()

    def _lose(self, holder: HoldMember, problem: DemandError | EventRejected, now: float) -> None:
        self.leave(holder.channel)
        self._refused(holder.channel, problem, now)

    def _start_over(self) -> None:
        """Place everybody anew, those who are gone left out."""
        self._joined = [self._again(holder) for holder in self._holders.values()]
        self._holders = {holder.channel.asked.id: holder for holder in self._joined}
        self._lines.clear()
        self._key_frame_schedule = KeyFrameSchedule[HoldMember]()
        for holder in self._joined:
            self._key_frame_schedule.schedule(holder)

    def _again(self, holder: HoldMember) -> HoldMember:
        assert self._tick_reader is not None
        return HoldMember(holder.channel, self._tick_reader.names, holder.joined)

    def _end(self, told: DecodedMessage) -> None:
        """The message is told to its end."""
        self._offset, self._within = told.offset, 0
        self._messages += 1
        owing, self._due = self._due, {}
        for channel in owing.values():
            channel.answer(told.time)


@cache
def warm_up_holding() -> None:
    """Have the kernels compiled before anybody waits for them; once per process."""
    line = IntervalLine(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    line.put(int(line.outside(1)[0]), 0, 0)
    plan, cells = np.zeros((1, 1), dtype=np.int64), np.zeros(HEAD + FIELDS, dtype=np.int64)
    pass_one(plan, cells, len(cells), 0, 0)
    pass_all(plan, cells, len(cells), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
