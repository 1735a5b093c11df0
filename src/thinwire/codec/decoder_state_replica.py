"""A subscriber's replica of one publisher's state, from its first key frame on."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from typing import TYPE_CHECKING

from thinwire.codec import Expander, rules
from thinwire.codec.changed_events import Vouched
from thinwire.codec.decoder_state import Bindings, Find, knows_none
from thinwire.codec.decoder_state_recent import Recent
from thinwire.codec.deliveries import Delivery
from thinwire.errors import CorruptFrame
from thinwire.schema import Event, Schema, is_opaque
from thinwire.wire import Binding, Frame, KeyFrame, LinkState, read
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import PACKED
from thinwire.wire.json_body import Spelling
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, WIDE

if TYPE_CHECKING:
    from thinwire.codec.compiled_decoder import FastDecoder


class Replica:
    """What a key frame started, kept in step by every frame after it.

    passed_over: are events that were passed over in silence made and handed out? It may change at any time
    bindings: what its slots name
    payloads: are its events nothing but bytes?
    """

    def __init__(
        self,
        key: KeyFrame,
        schema: Schema,
        *,
        publisher: str,
        wide: bool,
        compiled: bool,
        passed_over: bool = True,
        find: Find = knows_none,
    ) -> None:
        self.bindings = Bindings(find)
        self.payloads = is_opaque(schema)
        self.passed_over = passed_over
        self.rules_told = key.rules
        self.incarnation = key.incarnation
        self.config_version = key.config_version
        self.fingerprint = key.fingerprint
        self.expander = Expander(rules.decode(key.rules, schema), publisher, key.incarnation)
        self.link = LinkState(schema, incarnation=key.incarnation, wide=wide)
        self.fast = _fast(self.expander, self.link) if compiled else None
        self.spelling = Spelling(schema)
        self.recent = Recent()
        self._watched: Collection[str] = ()

    @property
    def sequence(self) -> int:
        """The sequence of the frame expected next, in full."""
        return self.link.cells[SEQUENCE]

    @property
    def complete(self) -> bool:
        """Is the state of every source known?"""
        keys, sources = self.expander.keys, self.link.sources
        return len(keys) >= sources and None not in keys[:sources]

    @property
    def vouched(self) -> Vouched | None:
        """What the compiled way took last, where it knows of every event in it that it shows a change."""
        return self.fast.vouched if self.fast is not None else None

    def watch(self, names: Collection[str]) -> None:
        """Leave out what changes none of these properties, as far as the compiled way can tell; () for none.

        It begins to tell with the second event of a source. Nothing is left out where values are not held.
        """
        if names is self._watched or self.fast is None:
            return
        self._watched = names
        self.fast.watch(names if self.expander.rules.hold else ())

    def fits(self, key: KeyFrame) -> bool:
        """Can the replica go on from this key frame? Another life, schema or configuration starts afresh."""
        told = (key.incarnation, key.config_version, key.fingerprint, key.rules)
        return told == (self.incarnation, self.config_version, self.fingerprint, self.rules_told)

    def restart(self, key: KeyFrame, frame: Frame, chain: int) -> None:
        """Take over the place in the stream, the check and the scales from a key frame."""
        self.bindings.clear()
        self.link.restart(key.scales, key.total_sources)
        self.link.cells[SEQUENCE] = key.sequence + 1
        self.link.cells[CHAIN] = chain
        self.recent.clear()
        self.recent.add(key.sequence, frame.raw)
        self.expander.make_room(key.first + len(key.sources))
        if self.fast is not None:
            self.fast.look_anew()

    def same_life(self, frame: Frame) -> bool:
        """Does the frame come from the life of the publisher that this is a replica of?"""
        cells = self.link.cells
        return frame.incarnation == cells[INCARNATION] and frame.wide == bool(cells[WIDE])

    def goes_on_with(self, frame: Frame) -> bool:
        """Is this the frame that comes next? Then sequence and check move on."""
        cells = self.link.cells
        chain = frame.chain_after(cells[CHAIN])
        if not self._is_next(frame, chain):
            return False
        self.recent.add(cells[SEQUENCE], frame.raw)
        cells[SEQUENCE] += 1
        cells[CHAIN] = chain
        return True

    def awaits(self, raw: bytes) -> Binding | None:
        """The binding without whose dictionary this frame, which comes next, cannot be read; None where it can."""
        if len(raw) < 5 or not raw[1] or not raw[0] & PACKED:
            return None
        frame = read(raw)
        if not self._is_next(frame, frame.chain_after(self.link.cells[CHAIN])):
            return None
        return self.bindings.lacking(raw[1])

    def _is_next(self, frame: Frame, chain: int) -> bool:
        """Are life, number and running check those that are expected?"""
        cells = self.link.cells
        low = cells[SEQUENCE] & (0xFFFF if cells[WIDE] else 0xFF)
        return self.same_life(frame) and frame.sequence == low and chain & 0xFF == frame.check

    def body_of(self, frame: Frame) -> bytes:
        """The body of a frame that came in its order, unpacked."""
        return self.bindings.unpack(frame) if frame.slot else frame.body

    def shows(self, alias: int) -> bool:
        """Can the last event of a source be seen from its state? A payload is not kept."""
        return not self.payloads or self.expander.columns.objects[0][alias] is not None

    def has_seen(self, frame: Frame) -> bool:
        """Is this one of the last frames again?"""
        return self.same_life(frame) and self.recent.holds(frame.sequence, frame.raw)

    def take_ordinary(self, message: bytes, at: int, out: list[Delivery]) -> tuple[int, int, int]:
        """The compiled way, for frames that come next and are nothing but data; answers as `FastDecoder.take`."""
        if self.fast is None:
            return at, 0, 0
        sequence = self.sequence
        end, frames, size = self.fast.take(message, at, out, passed_over=self.passed_over)
        if frames:
            whole = at <= 1 and end == len(message)
            self.recent.add(sequence, message if whole else message[:1] + message[at or 1 : end], frames)
        return end, frames, size

    def pass_over(self, alias: int, skip: int) -> list[Event]:
        """The source moves on by events that were passed over in silence; those of them that are handed out."""
        if skip and not self.shows(alias):
            raise CorruptFrame("payloads cannot be passed over in silence", skip=skip)
        fast = self.fast if skip <= MAX_SKIP else None
        if self.passed_over:
            return (fast or self.expander).pass_over(alias, skip)
        moves = self.expander.columns.moving[alias]
        (fast if fast is not None and moves else self.expander).move_on(alias, skip)
        if fast is not None and not moves:
            fast.rested(alias, skip)
        return []


def _fast(expander: Expander, link: LinkState) -> FastDecoder | None:
    """The compiled way, where it is installed and the rules are simple enough."""
    if find_spec("numba") is None:
        return None
    from thinwire.codec.compiled_decoder import FastDecoder
    from thinwire.codec.kernels.rule_table import compilable

    return FastDecoder(expander, link) if compilable(expander.columns) else None
