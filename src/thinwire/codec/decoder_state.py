"""What the slots of a link name, at its receiving end.

A publisher binds a slot in its own sequence, before the slot's first use and again behind every key frame. So a slot
means what the log says at that place, however often it is used again later, and whoever begins at a key frame knows
all that is in force.

The last frames taken, to know one by that comes again.

A subscriber's replica of one publisher's state, from its first key frame on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING

from thinwire.codec import Expander, rules
from thinwire.codec.changed_events import ChangedEvents
from thinwire.codec.deliveries import Delivery
from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import CorruptFrame, UnknownDictionary
from thinwire.schema import Event, Schema, is_opaque
from thinwire.wire import Binding, Frame, KeyFrame, LinkState, read, split
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import MAX_FRAME, PACKED
from thinwire.wire.json_body import Spelling
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, WIDE

if TYPE_CHECKING:
    from thinwire.codec.compiled_decoder import FastDecoder


Find = Callable[[bytes], Dictionary | None]
"""the dictionary with this hash; None where it is not known yet"""


class Bindings:
    """Slots, each bound to the hash of a dictionary, which is looked up when it is first needed."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._bound: dict[int, Binding] = {}
        self._codecs: dict[bytes, Codec] = {}

    def bind(self, binding: Binding) -> None:
        """From here on; what the slot named before is no longer in force."""
        self._bound[binding.slot] = binding

    def clear(self) -> None:
        """A key frame begins everything anew. Codecs stay: they are dear, and mostly bound again at once."""
        self._bound.clear()

    def restore(self, bindings: Iterable[Binding]) -> None:
        """Stand where another reader stood."""
        self._bound = {binding.slot: binding for binding in bindings}

    def in_force(self) -> list[Binding]:
        """All that is bound here."""
        return list(self._bound.values())

    def lacking(self, slot: int) -> Binding | None:
        """The binding of a slot whose dictionary is not known yet; None where it is, or nothing is bound."""
        binding = self._bound.get(slot)
        return binding if binding is not None and self._codec(binding) is None else None

    def codec(self, slot: int) -> Codec | None:
        """What unpacks the bodies of a slot; None where nothing is bound to it, or its dictionary is not known yet."""
        binding = self._bound.get(slot)
        return self._codec(binding) if binding is not None else None

    def unpack(self, frame: Frame) -> bytes:
        """The body of a frame that is packed with a dictionary; UnknownDictionary where its slot names none."""
        assert frame.slot is not None
        binding = self._bound.get(frame.slot)
        if binding is None:
            raise UnknownDictionary("the slot is not bound", slot=frame.slot)
        codec = self._codec(binding)
        if codec is None:
            raise UnknownDictionary(slot=frame.slot, hash=binding.hash.hex())
        return codec.unpack(frame.carried, MAX_FRAME)

    def _codec(self, binding: Binding) -> Codec | None:
        codec = self._codecs.get(binding.hash)
        if codec is None:
            found = self._find(binding.hash)
            if found is None or found.hash != binding.hash:
                return None
            in_force = {bound.hash for bound in self._bound.values()}
            self._codecs = {name: kept for name, kept in self._codecs.items() if name in in_force}
            codec = self._codecs[binding.hash] = codec_of(found)
        return codec


def knows_none(hash: bytes) -> Dictionary | None:
    """For links that nobody gives a dictionary."""
    return None


RECENT = 256
"""frames remembered"""

_HELD = 1 << 20
"""bytes of messages held on to, before their frames are looked at"""

HASH_BYTES = 8


class FrameDedup:
    """The last frames of a link by the low byte of their sequence.

    Nearly always nobody asks: messages are kept as they are, and taken apart only when somebody does.

    >>> recent = FrameDedup()
    >>> recent.add(7, b"\\x01\\x07\\x00one")
    >>> recent.holds(7, b"\\x01\\x07\\x00one"), recent.holds(7, b"\\x01\\x07\\x00two")
    (True, False)
    """

    def __init__(self) -> None:
        self._hashes: dict[int, bytes] = {}
        self._waiting: deque[tuple[int, bytes, int]] = deque()
        self._frames = 0
        self._bytes = 0

    def add(self, sequence: int, message: bytes, frames: int = 1) -> None:
        """These frames were taken, one after the other; `sequence` is the first one's, in full."""
        waiting = self._waiting
        waiting.append((sequence, message, frames))
        self._frames += frames
        self._bytes += len(message)
        while self._frames - waiting[0][2] >= RECENT:
            self._drop()
        if self._bytes > _HELD:
            self._look()

    def holds(self, sequence: int, frame: bytes) -> bool:
        """Is this one of the last frames? `sequence` may be cut to its low byte."""
        self._look()
        return self._hashes.get(sequence & (RECENT - 1)) == _hash(frame)

    def clear(self) -> None:
        """Forget them all."""
        self._hashes.clear()
        self._waiting.clear()
        self._frames = self._bytes = 0

    def hashes(self) -> dict[int, bytes]:
        """The frames remembered: their hashes by the low byte of their sequence."""
        self._look()
        return dict(self._hashes)

    def restore(self, hashes: Mapping[int, bytes]) -> None:
        """Remember what another memory of the same link remembered."""
        self.clear()
        self._hashes.update(hashes)

    def _look(self) -> None:
        while self._waiting:
            sequence, message, _ = self._waiting[0]
            for number, frame in enumerate(split(message), start=sequence):
                self._hashes[number & (RECENT - 1)] = _hash(frame)
            self._drop()

    def _drop(self) -> None:
        _, message, frames = self._waiting.popleft()
        self._frames -= frames
        self._bytes -= len(message)


def _hash(frame: bytes) -> bytes:
    """The same in every process, so that it can be kept."""
    return blake2b(frame, digest_size=HASH_BYTES).digest()


class DecoderState:
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
        self.recent = FrameDedup()
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
    def changed_events(self) -> ChangedEvents | None:
        """What the compiled way took last, where it knows of every event in it that it shows a change."""
        return self.fast.changed_events if self.fast is not None else None

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

    def accept_next(self, frame: Frame) -> bool:
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
