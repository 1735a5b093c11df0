"""The stream encoder of a channel: created from a decoder state, restricted to the sources and events of a class.

A class with a `where` predicate receives every matching event, also one whose values were all predicted, because the
absence of an event means that it did not match. Before a matching event the encoder advances the source past the
events that did not match.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from thinwire.codec import Audit, StreamConfig, StreamEncoder
from thinwire.codec.decoded_event_encoder import Frames, encode_decoded_events
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.row_map import RowMap
from thinwire.schema import Event
from thinwire.services.translator.decoded_message import DecodedMessage
from thinwire.topics.demand_class import DemandClass, Source
from thinwire.wire.control_frames import MAX_SKIP

_MAX_ADVANCE = MAX_SKIP - 1
"""events that one frame can skip"""


def skip_to_event(stream: StreamEncoder, event: Event, now: float) -> list[bytes]:
    """Advance a source to just before `event` and require a frame for it. Return the frames needed, usually none."""
    reducer, frames = stream.reducer, list[bytes]()
    row = reducer.row_of(event.source)
    if row is None:
        return []
    while event.ordinal - 1 - reducer.last_sent(row) > _MAX_ADVANCE:
        reducer.advance_to(row, reducer.last_sent(row) + _MAX_ADVANCE)
        frames += stream.heartbeat(now)
    reducer.advance_to(row, event.ordinal - 1)
    reducer.require_event(row, event.ordinal)
    return frames


class SourceSelection(dict[Source, bool]):
    """Cache of the sources that a class selects."""

    def __init__(self, select: Callable[[Source], bool]) -> None:
        self._select = select

    def __missing__(self, source: Source) -> bool:
        selected = self[source] = self._select(source)
        return selected


class ChannelEncoder:
    """Encodes the events of one publisher for one class.

    stream: the encoder; its state equals that of `decoder_state` when it is created
    log_schema: schema of the publisher's events
    matches: the predicate of the class; None if it has none
    is_selective: the class does not receive every event
    encode_all: returns the frames of events that the class selects
    row_map: shared by the channels of the same sources
    sequence: sequence number of the first frame
    """

    def __init__(
        self,
        demand: DemandClass,
        publisher: str,
        decoder_state: DecoderState,
        *,
        row_map: RowMap | None,
        sequence: int,
        key_frame_interval: float,
        max_sources: int,
    ) -> None:
        schema = demand.schema(decoder_state.schema)
        select = demand.source_filter(schema)
        self.log_schema = decoder_state.schema
        self._demand = demand
        self._key_frame_interval = key_frame_interval
        self._max_sources = max_sources
        self._selection = SourceSelection(select) if select is not None else None
        self.matches = demand.predicate.matches if demand.predicate is not None else None
        self.is_selective = select is not None or self.matches is not None
        self.stream = StreamEncoder(
            schema,
            self._config(decoder_state),
            name=publisher,
            incarnation=decoder_state.incarnation,
            now=math.inf,
            over=decoder_state.rules,
            sequence=sequence,
            validated=True,
        )
        self.encode_all: Callable[[Sequence[Event], float], Iterable[Frames]] = partial(
            encode_decoded_events, self.stream
        )
        if self.matches is not None:
            self.encode_all = self._encode_each
            return  # a source starts with its first matching event
        if self._selection is None:
            self.stream.adopt(decoder_state, row_map=row_map)
        else:  # a selection has rows of its own and must not write into the shared row map
            self.stream.adopt(decoder_state, self._selection.__getitem__)

    def covers(self, source: Source) -> bool:
        """Report whether the class selects this source."""
        return self._selection is None or self._selection[source]

    def select(self, events: list[Event]) -> tuple[list[Event], list[int]]:
        """Return the events that the class selects, and their indexes."""
        indexes = [index for index, event in enumerate(events) if self._admits(event)]
        return [events[index] for index in indexes], indexes

    def reconfigure(self, decoder_state: DecoderState, now: float) -> list[bytes]:
        """Follow a reconfiguration of the publisher, which changes the class's share of the tolerance."""
        return self.stream.reconfigure(self._config(decoder_state), now, over=decoder_state.rules)

    def encode(self, event: Event, now: float) -> list[bytes]:
        """Return the frames of an event that the class selects."""
        frames = skip_to_event(self.stream, event, now) if self.matches is not None else []
        return frames + self.stream.publish(event, now)

    def _encode_each(self, events: Sequence[Event], now: float) -> Iterator[Frames]:
        for number, event in enumerate(events):
            frames = self.encode(event, now)
            if frames:
                yield Frames([number] * len(frames), frames, data=False)

    def audit(self, audit: Audit) -> list[bytes]:
        """Return the frames of exact values; none if the event they belong to was not sent."""
        if self.matches is not None:
            row = self.stream.reducer.row_of(audit.source)
            if row is None or self.stream.reducer.last_ordinal(row) != audit.ordinal:
                return []
        return self.stream.audit(audit.source, audit.exacts)

    def skip_events(self, events: Iterable[Event], now: float) -> None:
        """Update the state with events and discard their frames."""
        for event in events:
            if self._admits(event):
                self.encode(event, now)

    def skip_message(self, message: DecodedMessage) -> None:
        """Update the state with a message and discard its frames."""
        for step in message.steps:
            if isinstance(step, DecoderState):
                self.reconfigure(step, message.time)
            elif isinstance(step, list):
                self.skip_events(step, message.time)

    def _admits(self, event: Event) -> bool:
        return self.covers(event.source) and (self.matches is None or self.matches(event))

    def _config(self, decoder_state: DecoderState) -> StreamConfig:
        return StreamConfig(
            decoder_state.config_version,
            self._demand.channel_demand(self._demand.schema(decoder_state.schema), decoder_state.rules),
            key_frame_interval=self._key_frame_interval,
            max_sources=self._max_sources,
        )
