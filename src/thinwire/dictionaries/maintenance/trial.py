"""Candidates for the next dictionary: what each would save over its life, and what it would cost to spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from thinwire.dictionaries.accounting import Topology
from thinwire.dictionaries.building import SEGMENTS, Way, build
from thinwire.dictionaries.codecs import Codec, Deflate, Preset, codec_of
from thinwire.dictionaries.dictionary import Dictionary, Facts
from thinwire.dictionaries.maintenance.estimating import DEFLATE, latest, packed
from thinwire.dictionaries.maintenance.policy import Trainer

JUDGES = 100
"""messages of the later part, spread evenly, that what is in use and every candidate are judged by: the same ones, so
that what makes a message long or short does not count"""
DEFLATED = 25
"""of them that are deflated to compare"""
LEARNED, LEARNED_FOR_A_BYTE = 1 << 17, 32
"""bytes of messages that a dictionary is made from, and for every byte of its own where those are more"""
SKETCHED, SKETCHED_FOR_A_BYTE, HASTE = 1 << 16, 10, 2
"""the same for a sketch, which is made in haste: a quarter of the time"""
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
    segments: lengths of segments to try, the first one for every size, the others for the size that is chosen
    train: what makes the dictionary that is proposed in the end; None for zstd at its usual level
    faded: bytes a message that the dictionary in use lost, over its life so far; another will fare no better
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
        faded: float = 0.0,
    ) -> None:
        self.messages = messages
        self.codec = codec
        self.topology = topology
        self.life = life
        self.parent = parent
        self.ahead = ahead
        self.segments = segments
        self.train = train
        self.faded = faded
        self.outcomes: dict[int, Outcome] = {}  # by size, as sketched
        later = latest(messages)
        self._earlier = messages[: len(messages) - len(later)]
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
        """What to choose sizes by; None where no dictionary can be made."""
        if size not in self.outcomes:
            found = self._sketched(size, self.segments[0])
            if found is None:
                return None
            self.outcomes[size] = found
        return self._worth(self.outcomes[size])

    def _worth(self, outcome: Outcome) -> float:
        """What a first dictionary saves over all lives, any other over one, less the cost.

        A larger one can follow for the bytes that it has more, so another is never larger than pays by now. And one
        that pays is not put off for one that may pay one day: what does not pay counts for one life as well.
        """
        lives = FARTHER * self.ahead if self.parent is None and outcome.saving > outcome.cost else 1
        return lives * outcome.saving - outcome.cost

    def refine(self, size: int) -> None:
        """Try the other lengths of segments, where this size comes near to paying."""
        first = self.outcomes[size]
        if not self._near(first):
            return
        lengths = dict.fromkeys(min(segment, size) for segment in self.segments)
        others = (self._sketched(size, length) for length in lengths if length != first.segment)
        self.outcomes[size] = max((first, *filter(None, others)), key=self._worth)

    def finished(self, size: int) -> Outcome | None:
        """The candidate of this size, where its sketch pays built from all messages; None where it cannot be made."""
        sketched = self.outcomes[size]
        if sketched.saving <= sketched.cost:
            return sketched
        learned = _spread(self.messages, max(LEARNED, LEARNED_FOR_A_BYTE * size))
        if self.train is not None:
            return self._outcome(self.train(learned, size), sketched.segment)
        made = build(learned, Way("zstd", 3, size, sketched.segment)) or sketched.dictionary
        return self._outcome(replace(made, facts=sketched.dictionary.facts), sketched.segment)

    def _sketched(self, size: int, segment: int) -> Outcome | None:
        """About what a dictionary of this size would give, made from the earlier messages."""
        segment = min(segment, size)
        learned = _spread(self._earlier, max(SKETCHED, SKETCHED_FOR_A_BYTE * size))
        made = build(learned, Way("zstd", 3, size, segment, HASTE))
        if made is None:
            return None
        saved = 100 * (1 - self._packed(codec_of(made)) / self.mean)
        facts = Facts(len(self.messages), sum(map(len, self.messages)), saved)
        return self._outcome(replace(made, facts=facts), segment)

    def _outcome(self, made: Dictionary | None, segment: int) -> Outcome | None:
        if made is None or made.facts is None:
            return None
        gain = self.now - self.mean * (1 - made.facts.ratio / 100)
        travels = at_most(made, self.parent)
        saving = (gain - self.faded) * self.topology.copies * self.life
        return Outcome(made, segment, travels, gain, saving, travels * self.topology.receivers)

    @property
    def promising(self) -> bool:
        """Some candidate comes near to paying: a larger sample may make it pay."""
        return any(map(self._near, self.outcomes.values()))

    def _near(self, outcome: Outcome) -> bool:
        return 2 * outcome.saving > outcome.cost

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


def _spread(messages: Sequence[bytes], enough: int) -> Sequence[bytes]:
    """So many bytes of messages, or up to twice as many, taken evenly from all of them."""
    return messages[:: max(1, sum(map(len, messages)) // enough)]


def at_most(dictionary: Dictionary, parent: Dictionary | None) -> int:
    """Bytes in which a dictionary travels, or a few more: what can be found out without the slowest packing.

    >>> at_most(Dictionary(b"temperature" * 100, "zlib", level=6, largest=64), None)
    47
    """
    packers: list[Codec] = [Deflate(6)]
    if parent is not None:
        packers.append(Preset(parent.content, 6))
    return min(len(packer.pack(dictionary.content)) for packer in packers) + _FORM


_FORM = 24
"""bytes that a dictionary travels with beside its content"""
