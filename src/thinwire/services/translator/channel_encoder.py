"""What channels have in common, and who may feed them.

A source goes on to an event that is told, past others that are nobody's business.

Where a class chooses events by their values, silence means that an event did not match. So whatever matches is told,
also where all of it was expected; and the numbers of those between are left out, just before.

What a message of the log brings, in steps that every channel of its publisher goes through alike.

The link of a channel: made to stand where a decoder does, with the share of the class, on the sources it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from thinwire.brokers.protocol import Stored
from thinwire.codec import Audit, Delivery, EventsMissed, StreamConfig, StreamEncoder, Watermark
from thinwire.codec.decoded_event_encoder import Frames, encode_decoded_events
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.codec.source_table import DUE, ORDINAL, TOLD, Roster
from thinwire.schema import Event
from thinwire.topics.demand_class import DemandClass, Source
from thinwire.wire.control_frames import MAX_SKIP

if TYPE_CHECKING:
    from thinwire.services.translator.channel import Channel


HOLD_FROM = 16
"""channels of changes, of one publisher, that are fed as one; fewer look at every event, and need less memory"""


@dataclass
class ChannelSettings:
    """What all channels of a translation have in common.

    epoch: of the translator; key_frame_interval, max_sources: as in `StreamConfig`
    speaking: those that have something to say; waiting: how many bytes of memory that needs
    hold_from: so many channels of changes that tell of one publisher are fed as one, see `HoldGroup`
    """

    epoch: int
    key_frame_interval: float = 3600.0
    max_sources: int = MAX_SOURCES
    speaking: list[Channel] = field(default_factory=list)
    waiting: int = 0
    hold_from: int = HOLD_FROM


class ChannelGroup(Protocol):
    """Who feeds a channel among many, and shows it only events that it must look at."""

    def catch_up(self, channel: Channel) -> None:
        """Let it stand where it would, had it looked at every event."""

    def owes(self, channel: Channel) -> None:
        """It has to answer at the end of the next message."""


_MOST = MAX_SKIP - 1
"""events that one frame may leave out"""


def skip_to_event(link: StreamEncoder, event: Event, now: float) -> list[bytes]:
    """Bring a source to just before an event, which must be told then; the frames that it takes, mostly none."""
    row = link.encoder.reducer.row_of(event.source)
    if row is None:
        return []
    columns = link.encoder.reducer.columns
    start, frames = row * columns.width, list[bytes]()
    while event.ordinal - 1 - columns.table[start + TOLD] > _MOST:
        _pass_to(link, row, columns.table[start + TOLD] + _MOST)
        frames += link.heartbeat(now)
    _pass_to(link, row, event.ordinal - 1)
    columns.table[start + DUE] = event.ordinal
    return frames


def is_last_sent(link: StreamEncoder, source: Source, ordinal: int) -> bool:
    """Is this the last event of the source that was told?"""
    reducer = link.encoder.reducer
    row = reducer.row_of(source)
    return row is not None and reducer.columns.ordinal(row) == ordinal


def _pass_to(link: StreamEncoder, row: int, ordinal: int) -> None:
    """All events of a source up to this one are passed over."""
    encoder = link.encoder
    columns = encoder.reducer.columns
    start = row * columns.width
    if encoder.fast is not None and columns.moving[row]:
        from thinwire.codec.kernels.slot_updates import pass_one  # loaded already: the encoder is compiled as well

        pass_one(encoder.fast.plan, columns.view(), columns.width, row, ordinal)
    elif columns.moving[row]:
        for _ in range(ordinal - columns.table[start + ORDINAL]):
            columns.advance(row)
    else:
        columns.table[start + ORDINAL] = max(ordinal, columns.table[start + ORDINAL])


Step = list[Event] | Watermark | Audit | DecoderState
"""events, that all is told up to a time, exact values, or that the log has other rules now"""


class DecodedMessage(NamedTuple):
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


def decode_steps(
    stored: Stored, found: Iterable[Delivery], before: DecoderState, after: DecoderState | None
) -> DecodedMessage:
    """What a decoder made of a message, as steps.

    before, after: the decoder's state. Where it is another one, the publisher may have been told to do otherwise: then
        channels go over to the new rules after the last event told under the old ones
    """
    steps: list[Step] = []
    decoder_state, events, whole = before, 0, True
    for thing in found:
        if isinstance(thing, EventsMissed):
            whole = False
            break
        if not isinstance(thing, Event):
            steps.append(thing)
            continue
        if not _is_under(thing, decoder_state):
            if after is None or not (_is_reconfiguration(decoder_state, after) and _is_under(thing, after)):
                whole = False
                break
            decoder_state = after
            steps.append(after)
        if steps and isinstance(steps[-1], list):
            steps[-1].append(thing)
        else:
            steps.append([thing])
        events += 1
    if whole and after is not decoder_state:
        whole = after is not None and _is_reconfiguration(decoder_state, after)
        steps += [after] if whole and after is not None else []
    return DecodedMessage(stored.offset, stored.time, steps, events if whole else -1)


def _is_under(event: Event, decoder_state: DecoderState) -> bool:
    """Was the event told under the rules of this replica, and are its bounds claimed?"""
    bound, expander = event.bound, decoder_state.expander
    return bound is expander.bounds or bound is expander.silent_bounds


def _is_reconfiguration(before: DecoderState, after: DecoderState) -> bool:
    """Does a link go on with another configuration, and nothing else?"""
    same = (before.incarnation, before.fingerprint) == (after.incarnation, after.fingerprint)
    return same and before.config_version < after.config_version and not after.expander.rules.min_interval


class SourceSelection(dict[Source, bool]):
    """Which sources a class takes; each is asked about once."""

    def __init__(self, choose: Callable[[Source], bool]) -> None:
        self._choose = choose

    def __missing__(self, source: Source) -> bool:
        answer = self[source] = self._choose(source)
        return answer


class ChannelEncoderFactory:
    """How a class has its links made, and moved on in silence.

    choice: the sources that it takes, all where None; known once a link was made
    matches: which events it takes of them, all where None
    """

    def __init__(self, asked: DemandClass, publisher: str, settings: ChannelSettings) -> None:
        self.choice: SourceSelection | None = None
        self.matches = asked.predicate.holds if asked.predicate is not None else None
        self._asked = asked
        self._publisher = publisher
        self._settings = settings

    def adopt(self, decoder_state: DecoderState, roster: Roster | None, sequence: int) -> StreamEncoder:
        """A link that stands where a decoder does."""
        rules = decoder_state.expander.rules
        schema = self._asked.schema(rules.schema)
        choose = self._asked.chooser(schema)
        self.choice = SourceSelection(choose) if choose is not None else None
        link = StreamEncoder(
            schema,
            self._config(decoder_state),
            name=self._publisher,
            incarnation=decoder_state.incarnation,
            now=math.inf,
            over=rules,
            sequence=sequence,
            validated=True,
        )
        if self.matches is not None:
            return link  # it tells of a source from the first event on that matches
        if self.choice is None:
            link.adopt(decoder_state.expander, roster=roster)
        else:  # whose rows are its own: it must not write into the roster of all sources
            link.adopt(decoder_state.expander, self.choice.__getitem__)
        return link

    def follow(self, link: StreamEncoder, decoder_state: DecoderState, now: float) -> list[bytes]:
        """The publisher was told to do otherwise: what is left of the tolerance is another share of it now."""
        return link.reconfigure(self._config(decoder_state), now, over=decoder_state.expander.rules)

    def pass_mutely(self, link: StreamEncoder, told: DecodedMessage) -> None:
        """A message moves the state on, and nothing is said of it."""
        for step in told.steps:
            if isinstance(step, DecoderState):
                self.follow(link, step, told.time)
            elif isinstance(step, list):
                self.publish_mutely(link, step, told.time)

    def publish_mutely(self, link: StreamEncoder, events: list[Event], now: float) -> None:
        """Events move the state on, and nothing is said of them."""
        for event in events:
            if self.admits(event):
                self.publish(link, event, now)

    @property
    def takes_all(self) -> bool:
        """Does the class choose neither sources nor events?"""
        return self.choice is None and self.matches is None

    def admits(self, event: Event) -> bool:
        """Is it one of the events that the class chose?"""
        chosen = self.choice is None or self.choice[event.source]
        return chosen and (self.matches is None or self.matches(event))

    def publish(self, link: StreamEncoder, event: Event, now: float) -> list[bytes]:
        """The frames of an event; of one that matches, whatever came before it without matching."""
        frames = skip_to_event(link, event, now) if self.matches is not None else []
        return frames + link.publish(event, now) if frames else link.publish(event, now)

    def publish_all(self, link: StreamEncoder, events: Sequence[Event], now: float) -> Iterator[Frames]:
        """The frames of events that the class chose, told at one time."""
        if self.matches is None:
            yield from encode_decoded_events(link, events, now)
            return
        for number, event in enumerate(events):
            frames = self.publish(link, event, now)
            if frames:
                yield Frames([number] * len(frames), frames, data=False)

    def _config(self, decoder_state: DecoderState) -> StreamConfig:
        rules = decoder_state.expander.rules
        demand = self._asked.share(self._asked.schema(rules.schema), rules)
        return StreamConfig(
            decoder_state.config_version,
            demand,
            key_frame_interval=self._settings.key_frame_interval,
            max_sources=self._settings.max_sources,
        )
