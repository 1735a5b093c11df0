"""Decoder state: what a stream decoder holds of one publisher since its key frames."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from thinwire.codec import Expander
from thinwire.codec.deliveries import ChangedEvents, Delivery
from thinwire.codec.dictionary_bindings import Bindings, FindDictionary, no_dictionaries
from thinwire.codec.frame_sequencer import FrameSequencer
from thinwire.codec.kernels.rule_table import is_compilable
from thinwire.codec.row_map import Source
from thinwire.codec.rules import decode as decode_rules
from thinwire.errors import CorruptFrame
from thinwire.schema import Event, Schema, is_opaque
from thinwire.wire import Binding, Frame, KeyFrame, StreamState, read
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import PACKED
from thinwire.wire.json_body import JsonFormat

if TYPE_CHECKING:
    from thinwire.codec.compiled_decoder import CompiledDecoder


class DecoderState:
    """State of one publisher from a key frame on: source cells, stream state, frame order and dictionary bindings.

    include_suppressed: deliver suppressed events; it may change at any time
    bindings: the dictionaries bound to slots
    payloads: the events are opaque bytes
    """

    def __init__(
        self,
        key: KeyFrame,
        schema: Schema,
        publisher: str,
        *,
        wide: bool,
        compiled: bool,
        find: FindDictionary = no_dictionaries,
    ) -> None:
        self.bindings = Bindings(find)
        self.payloads = is_opaque(schema)
        self.include_suppressed = True
        self.encoded_rules = key.rules
        self.incarnation = key.incarnation
        self.config_version = key.config_version
        self.fingerprint = key.fingerprint
        self.schema = schema
        self.rules = decode_rules(key.rules, schema)
        self.expander = Expander(self.rules, publisher, key.incarnation)
        self.stream = StreamState(schema, incarnation=key.incarnation, wide=wide)
        self.sequencer = FrameSequencer(self.stream)
        self.compiled: CompiledDecoder | None = None
        if compiled and is_compilable(self.expander.table) and find_spec("numba") is not None:
            from thinwire.codec.compiled_decoder import CompiledDecoder  # numba takes half a second to load

            self.compiled = CompiledDecoder(self.expander, self.stream)
        self.spelling = JsonFormat(schema)
        self._watched: Collection[str] = ()

    @property
    def sequence(self) -> int:
        """The full sequence of the next frame."""
        return self.sequencer.sequence

    @property
    def is_complete(self) -> bool:
        """Whether the state of every source is known."""
        keys, sources = self.expander.keys, self.stream.sources
        return len(keys) >= sources and None not in keys[:sources]

    @property
    def changed_events(self) -> ChangedEvents | None:
        """The events of the last compiled call, if each of them is a verified change."""
        return self.compiled.changed_events if self.compiled is not None else None

    def has_bounds_of(self, event: Event) -> bool:
        """Check whether an event was decoded under the rules of this state, with bounds."""
        return event.bound is self.expander.bounds or event.bound is self.expander.suppressed_bounds

    def known_sources(self) -> list[Source]:
        """Return the sources whose state is known, in row order."""
        return [key for key in self.expander.keys if key is not None]

    def last_ordinals(self) -> Iterator[tuple[Source, int, int]]:
        """Return source, row and ordinal of the last event of every known source."""
        for row, key in enumerate(self.expander.keys):
            if key is not None:
                yield key, row, self.expander.table.ordinal(row)

    def watch(self, names: Collection[str]) -> None:
        """Leave out events that change none of these properties, if the compiled decoder can decide it.

        The decision needs the previous event of a source. Rules that predict values leave nothing out. () ends it.
        """
        if names is self._watched or self.compiled is None:
            return
        self._watched = names
        self.compiled.watch(names if self.expander.rules.hold else ())

    def continues_with(self, key: KeyFrame) -> bool:
        """Check whether a key frame has the same incarnation, configuration, schema and rules."""
        received = (key.incarnation, key.config_version, key.fingerprint, key.rules)
        return received == (self.incarnation, self.config_version, self.fingerprint, self.encoded_rules)

    def restart(self, key: KeyFrame, frame: Frame, check: int) -> None:
        """Adopt position, running check and scales of a key frame."""
        self.bindings.restore(())
        self.stream.restart(key.scales, key.total_sources)
        self.sequencer.restart(key, frame, check)
        self.expander.reserve(key.first + len(key.sources))
        if self.compiled is not None:
            self.compiled.reset_watch()

    def missing_dictionary(self, raw: bytes) -> Binding | None:
        """Return the binding of the dictionary that the next frame needs and that is not available yet, or None."""
        if len(raw) < 5 or not raw[1] or not raw[0] & PACKED:
            return None
        return self.bindings.missing(raw[1]) if self.sequencer.is_next(read(raw)) else None

    def has_state(self, row: int) -> bool:
        """Check whether the state contains the last event of a source. Payloads are not stored."""
        return not self.payloads or self.expander.table.objects[0][row] is not None

    def decode_data_frames(self, message: bytes, at: int, out: list[Delivery]) -> tuple[int, int, int]:
        """Decode the run of plain data frames at byte `at` with the compiled decoder, see `CompiledDecoder.decode`."""
        if self.compiled is None:
            return at, 0, 0
        sequence = self.sequence
        end, frames, size = self.compiled.decode(message, at, out, include_suppressed=self.include_suppressed)
        if frames:
            complete = at <= 1 and end == len(message)
            part = message if complete else message[:1] + message[at or 1 : end]
            self.sequencer.dedup.add(sequence, part, frames)
        return end, frames, size

    def expand_suppressed(self, row: int, count: int) -> list[Event]:
        """Advance a source by suppressed events. Return them if suppressed events are included."""
        if count and not self.has_state(row):
            raise CorruptFrame("payloads cannot be suppressed", skip=count)
        compiled = self.compiled if count <= MAX_SKIP else None
        if self.include_suppressed:
            return (compiled or self.expander).expand_suppressed(row, count)
        moves = self.expander.table.moving[row]
        (compiled if compiled is not None and moves else self.expander).advance(row, count)
        if compiled is not None and not moves:
            compiled.advance_constant(row, count)
        return []
