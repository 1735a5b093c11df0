"""Candidates for the next dictionary: what each would save over its life, and what it would cost to spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from thinwire.dictionaries.accounting import Topology
from thinwire.dictionaries.building import SEGMENTS
from thinwire.dictionaries.codecs import Codec, Deflate, Preset
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.maintenance.estimating import DEFLATE, latest, packed
from thinwire.dictionaries.maintenance.policy import Trainer
from thinwire.dictionaries.training import finish, sketch

JUDGES = 200
"""messages of the later part that the present dictionary is judged by, spread evenly"""
DEFLATED = 50
"""of them that are deflated to compare"""
LEARNED, LEARNED_FOR_A_BYTE = 1 << 17, 32
"""bytes of messages that a dictionary is made from, and for every byte of its own where those are more"""
FARTHER = 0.75
"""share of a saving that a size is credited with against a smaller one: judges stand right behind the messages that
were learned from, and farther away the rarer parts of a dictionary serve less"""
LEAST = 150
"""bytes that even the smallest dictionary takes to travel"""


@dataclass(frozen=True)
class Outcome:
    """One candidate.

    segment: length of the segments that it is made of
    size: bytes in which it travels
    gain: bytes a message that it packs smaller than what is in use
    saving, cost: bytes, over its life and to every receiver
    """

    dictionary: Dictionary
    segment: int
    size: int
    gain: float
    saving: float
    cost: float


class Trial:
    """The candidates of one look.

    messages: the sample, oldest first; the later part judges
    codec: what is in use
    life: messages that a new dictionary is expected to live for
    parent: the dictionary in use, which receivers have
    ahead: how many such lives sizes are compared over; more than one where the expectation grows with the stream, so
        that no small one is bought that a larger one would soon replace
    segments: lengths of segments to try
    train: what makes the dictionary that is proposed in the end; None for zstd at its usual level
    """

    def __init__(
        self,
        messages: Sequence[bytes],
        codec: Codec,
        topology: Topology,
        life: float,
        parent: Dictionary | None,
        ahead: int = 1,
        segments: Sequence[int] = SEGMENTS,
        train: Trainer | None = None,
    ) -> None:
        self.messages = messages
        self.codec = codec
        self.topology = topology
        self.life = life
        self.parent = parent
        self.ahead = ahead
        self.segments = segments
        self.train = train
        self.outcomes: dict[int, Outcome] = {}  # by size, as sketched
        later = latest(messages)
        self.mean = sum(map(len, later)) / len(later)
        self._judges = later[:: -(-len(later) // JUDGES)]

    @cached_property
    def now(self) -> float:
        """Bytes of a message as it is packed at present, slot included."""
        return self._packed(self.codec)

    @cached_property
    def deflated(self) -> float:
        """Bytes of a message without any dictionary, slot included; deflate is slow, so fewer messages must do."""
        return self.now if self.codec is DEFLATE else self._packed(DEFLATE, DEFLATED)

    @property
    def hopeless(self) -> bool:
        """Even a dictionary that packed messages to nothing would not pay."""
        return self.now * self.topology.copies * self.life <= LEAST * self.topology.receivers

    def worth(self, size: int) -> float | None:
        """What to choose sizes by: most of the saving, less the cost; None where no dictionary can be made."""
        learned = self._learned(size)
        lengths = dict.fromkeys(min(segment, size) for segment in self.segments)
        found = [self._outcome(sketch(learned, size, segment), segment) for segment in lengths]
        best = max((one for one in found if one is not None), key=lambda one: one.gain, default=None)
        if best is None:
            return None
        self.outcomes[size] = best
        return FARTHER * self.ahead * best.saving - best.cost

    def finished(self, size: int) -> Outcome | None:
        """The candidate of this size, where its sketch pays built from all messages; None where it cannot be made."""
        sketched = self.outcomes[size]
        if sketched.saving <= sketched.cost:
            return sketched
        learned, segment = self._learned(size), sketched.segment
        if self.train is not None:
            return self._outcome(self.train(learned, size), segment)
        return self._outcome(finish(learned, size, segment, sketched.dictionary), segment)

    def _outcome(self, made: Dictionary | None, segment: int) -> Outcome | None:
        if made is None or made.facts is None:
            return None
        gain = self.now - self.mean * (1 - made.facts.ratio / 100)
        travels = at_most(made, self.parent)
        saving = gain * self.topology.copies * self.life
        return Outcome(made, segment, travels, gain, saving, travels * self.topology.receivers)

    def _learned(self, size: int) -> Sequence[bytes]:
        """The messages that a dictionary of this size is made from: evenly spread, as many as make a difference."""
        bytes_ = sum(map(len, self.messages))
        return self.messages[:: max(1, bytes_ // max(LEARNED, LEARNED_FOR_A_BYTE * size))]

    @property
    def promising(self) -> bool:
        """Some candidate comes near to paying: a larger sample may make it pay."""
        return any(2 * outcome.saving > outcome.cost for outcome in self.outcomes.values())

    def breaks_even(self, gain: float, size: int) -> float:
        """Messages after which a dictionary has paid that travels in `size` bytes and gains so much a message."""
        return size * self.topology.receivers / (gain * self.topology.copies) if gain > 0 else inf

    def next_to_pay(self, adopted: int | None) -> float:
        """The shortest life with which a candidate that was left pays, beside the one of the size that was adopted."""
        base = self.outcomes[adopted].gain if adopted is not None else 0.0
        return min((self.breaks_even(o.gain - base, o.size) for o in self.outcomes.values()), default=inf)

    def _packed(self, codec: Codec, most: int = JUDGES) -> float:
        """Bytes of a message; the judges may be larger or smaller than the later messages are on average."""
        judges = self._judges[:: -(-len(self._judges) // most)]
        return packed(judges, codec) * self.mean / max(sum(map(len, judges)), 1)


def at_most(dictionary: Dictionary, parent: Dictionary | None) -> int:
    """Bytes in which a dictionary travels, or a few more: what can be found out without the slowest packing.

    >>> at_most(Dictionary(b"temperature" * 100, "zlib", level=6, largest=64), None)
    47
    """
    packers: list[Codec] = [Deflate(9)]
    if parent is not None:
        packers.append(Preset(parent.content, 9))
    return min(len(packer.pack(dictionary.content)) for packer in packers) + _FORM


_FORM = 24
"""bytes that a dictionary travels with beside its content"""
