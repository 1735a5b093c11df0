"""Which size of dictionary is worth most: a climb over a ladder of sizes, as few trainings as possible.

>>> worth = {256: 1.0, 384: 5.0, 512: 10.0, 768: 20.0, 1024: 30.0, 1536: 38.0, 2048: 35.0, 3072: 32.0, 4096: 31.0}
>>> climbed(list(worth), start=512, worth=worth.get)
1536
>>> climbed(list(worth), start=256, worth=worth.get, steps=GROWING + NEAR)
2048

Candidates for the next dictionary: what each would save over its life, and what it would cost to spread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log10
from typing import NamedTuple

from thinwire.dictionaries.codecs import Codec, Deflate, PresetDeflate, codec_of
from thinwire.dictionaries.dictionary import Dictionary, Facts
from thinwire.dictionaries.policies.lifetime_estimate import UNTOLD, Form
from thinwire.dictionaries.policies.policy import DEFLATE, Trainer, latest, packed
from thinwire.dictionaries.topology import Topology
from thinwire.dictionaries.training import SEGMENTS, TrainingMethod, build, recast

LADDER = tuple(whole << power for power in range(7, 15) for whole in (2, 3))
"""bytes: 256, 384, 512, 768 and so on to 49,152"""
SEARCHING, GROWING, NEAR, REPLACING = (2, -2, 1, -1), (4,), (2, -2), (2,)
"""rungs of the ladder to go at a time: where nothing is known of the size, where a larger one may serve better by now,
around one that serves better, and where one like the present one will do"""
SAMPLE = 10
"""bytes of messages for every byte of a dictionary; from fewer it learns them by heart"""


def climbed(
    sizes: Sequence[int], start: int, worth: Callable[[int], float | None], steps: Sequence[int] = SEARCHING
) -> int | None:
    """The size that is worth most on the way, each of the steps in turn as long as it helps; None if no worth is known.

    A size whose worth is None ends the climb on its side.
    """
    asked: dict[int, float | None] = {}

    def known(place: int) -> float | None:
        if not 0 <= place < len(sizes):
            return None
        if place not in asked:
            asked[place] = worth(sizes[place])
        return asked[place]

    best = max(0, min(bisect_right(sizes, start) - 1, len(sizes) - 1))
    for step in steps:
        while _better(known(best + step), known(best)):
            best += step
    return sizes[best] if sizes and known(best) is not None else None


def _better(one: float | None, other: float | None) -> bool:
    return one is not None and (other is None or one > other)


def fitting(sample: int, ladder: Sequence[int] = LADDER) -> list[int]:
    """The sizes that so many bytes of messages can fill; the smallest always.

    >>> fitting(25_000), fitting(100)
    ([256, 384, 512, 768, 1024, 1536, 2048], [256])
    """
    return [size for size in ladder if size == ladder[0] or size * SAMPLE <= sample]


JUDGES, MORE_JUDGES = 60, 80
"""messages of the later part, spread evenly, that what is in use and every candidate are judged by: the same ones, so
that what makes a message long or short does not count; and how many more for every ten times as many receivers, who all
pay for a wrong choice"""
FEW = 4
"""one of them in so many is what deflate and the slower forms are compared by"""
LEARNED, LEARNED_FOR_A_BYTE = 1 << 17, 32
"""bytes of messages that a trainer of somebody's own is given, and for every byte of a dictionary if those are more"""


class Effort(NamedTuple):
    """How a dictionary is made: as the best of several, each from other messages or of other segments.

    Two that differ in nothing else pack up to a third better or worse, the small ones above all; on the next messages
    as on those that judge.

    tries: how many at most; enough: bytes of messages for each, for_a_byte: and for every byte of its own where those
        are more; altogether: bytes of messages that are enough for all of them
    haste: see `TrainingMethod`
    """

    tries: int
    enough: int
    for_a_byte: int
    altogether: int
    haste: int


SKETCHED = Effort(tries=4, enough=1 << 14, for_a_byte=10, altogether=1 << 16, haste=2)
FINISHED = Effort(tries=8, enough=1 << 16, for_a_byte=20, altogether=1 << 19, haste=1)
"""made in haste, to compare sizes and forms by; and what is proposed in the end"""
FARTHER = 0.75
"""share of a saving that a first dictionary is credited with: judges stand right behind the messages that were learned
from, and farther away the rarer parts of a dictionary serve less"""
SKETCH: Form = ("zstd", 3)
FORMS: tuple[Form, ...] = (SKETCH, ("dense", 9), ("brief", 6))
"""what a dictionary may be used with, the fastest first, which is the one that it is made for"""
LONG = 1
"""times the stream so far: a dictionary that will pay before it has grown by this may be waited for"""
LEAST = 150
"""bytes that even the smallest dictionary takes to travel"""


class Try(NamedTuple):
    """One of the tries: bytes of a message, length of its segments."""

    packed: float
    segment: int
    dictionary: Dictionary


@dataclass(frozen=True)
class TrialOutcome:
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


class CandidateTrial:
    """The candidates of one look.

    messages: the sample, oldest first; the later part judges
    codec: what is in use
    life: messages that a new dictionary is expected to live for
    parent: the dictionary in use, which receivers have
    ahead: how many such lives sizes are compared over; more than one where the expectation grows with the stream, so
        that no small one is bought that a larger one would soon replace
    segments: lengths of segments to try
    train: what makes the dictionary that is proposed in the end, where that is somebody's own
    faded: see `Decay`
    forms: codecs and levels to judge a dictionary with; the one that is worth most is taken
    """

    def __init__(
        self,
        messages: Sequence[bytes],
        codec: Codec,
        topology: Topology,
        life: float,
        parent: Dictionary | None,
        ahead: float = 1,
        segments: Sequence[int] = SEGMENTS,
        train: Trainer | None = None,
        faded: float = 0.0,
        forms: Sequence[Form] = FORMS,
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
        self.forms = forms
        self.outcomes: dict[int, TrialOutcome] = {}  # by size, as sketched, in the form that is worth most
        later = latest(messages)
        self._earlier = messages[: len(messages) - len(later)]
        self.mean = sum(map(len, later)) / len(later)
        judges = JUDGES + round(MORE_JUDGES * log10(topology.receivers))
        self._judges = later[:: -(-len(later) // judges)]

    @cached_property
    def now(self) -> float:
        """Bytes of a message as it is packed at present, slot included."""
        return self._packed(self.codec)

    @cached_property
    def deflated(self) -> float:
        """Bytes of a message without any dictionary, slot included; deflate is slow, so fewer messages must do."""
        return self.now if self.codec is DEFLATE else self._packed(DEFLATE, FEW)

    @property
    def hopeless(self) -> bool:
        """Even a dictionary that packed messages to nothing would not pay."""
        return self.now * self.topology.copies * self.life <= LEAST * self.topology.receivers

    def worth(self, size: int) -> float | None:
        """What to choose sizes by; None where no dictionary can be made."""
        if size not in self.outcomes:
            found = self._sketched(size)
            if found is None:
                return None
            self.outcomes[size] = found
        return self._worth(self.outcomes[size])

    def _worth(self, outcome: TrialOutcome) -> float:
        """What a first dictionary saves over all lives, any other over one, less its cost and that of waiting for it.

        So one that pays is put off for a better one that will pay before long. What may pay one day counts for one
        life. A larger one can follow, so another is never larger than pays by now.
        """
        wait = max(0.0, outcome.cost / outcome.saving - 1) if outcome.saving > 0 else inf
        if wait > LONG:
            return outcome.saving - outcome.cost
        lives = FARTHER * self.ahead if self.parent is None else 1.0
        return (lives - wait / UNTOLD) * outcome.saving - outcome.cost

    def spent(self, size: int, life: float) -> float:
        """Bytes that a message would take, and the dictionary over such a life, as a share of the plain ones."""
        if self.worth(size) is None:
            return inf
        found = self.outcomes[size]
        return (self.now - found.gain + found.cost / (life * self.topology.copies)) / max(self.mean, 1)

    def finished(self, size: int) -> TrialOutcome | None:
        """The candidate of this size, where its sketch pays built from all messages; None where it cannot be made."""
        sketched = self.outcomes[size]
        if sketched.saving <= sketched.cost:
            return sketched
        if self.train is not None:
            learned = _spread(self.messages, max(LEARNED, LEARNED_FOR_A_BYTE * size))
            return self._outcome(self.train(learned, size), sketched.segment)
        best, like = self._best(self.messages, size, FINISHED), sketched.dictionary
        if best is None:
            return sketched
        made = recast(best.dictionary, like.codec, like.level)
        return self._outcome(replace(made, facts=like.facts), best.segment)

    def _sketched(self, size: int) -> TrialOutcome | None:
        """About what a dictionary of this size would give, made from the earlier messages."""
        best = self._best(self._earlier, size, SKETCHED)
        if best is None:
            return None
        judged = [self._outcome(made, best.segment) for made in self._judged(best)]
        return max(filter(None, judged), key=self._worth)

    def _best(self, messages: Sequence[bytes], size: int, effort: Effort) -> Try | None:
        """Of several tries the one that packs the judges smallest."""
        lengths = list(dict.fromkeys(min(segment, size) for segment in self.segments))
        enough = max(effort.enough, effort.for_a_byte * size)
        most = max(1, min(effort.tries, effort.altogether // enough))
        shares = min(most, max(1, sum(map(len, messages)) // enough))
        tries = []
        for number in range(min(most, shares * len(lengths))):
            segment = lengths[number % len(lengths)]
            learned = _spread(messages[number % shares :: shares], enough)
            made = build(learned, TrainingMethod(*SKETCH, size, segment, effort.haste))
            if made is not None:
                tries.append(Try(self._packed(codec_of(made)), segment, made))
        return min(tries, key=lambda one: one.packed, default=None)

    def _judged(self, best: Try) -> Iterator[Dictionary]:
        """It in every form, with what that gave on messages that it had not seen."""
        few = self._packed(codec_of(best.dictionary), FEW) if len(self.forms) > 1 else 1.0
        for form in self.forms:
            made, packed = recast(best.dictionary, *form), best.packed
            if form != SKETCH:
                packed *= self._packed(codec_of(made), FEW) / few
            facts = Facts(len(self.messages), sum(map(len, self.messages)), 100 * (1 - packed / self.mean))
            yield replace(made, facts=facts)

    def _outcome(self, made: Dictionary | None, segment: int) -> TrialOutcome | None:
        if made is None or made.facts is None:
            return None
        gain = self.now - self.mean * (1 - made.facts.ratio / 100)
        travels = at_most(made, self.parent)
        saving = (gain - self.faded) * self.topology.copies * self.life
        return TrialOutcome(made, segment, travels, gain, saving, travels * self.topology.receivers)

    @property
    def promising(self) -> bool:
        """Some candidate comes near to paying: a larger sample may make it pay."""
        return any(map(self._near, self.outcomes.values()))

    def _near(self, outcome: TrialOutcome) -> bool:
        return 2 * outcome.saving > outcome.cost

    def breaks_even(self, gain: float, size: int) -> float:
        """Messages after which a dictionary has paid that travels in `size` bytes and gains so much a message."""
        return size * self.topology.receivers / (gain * self.topology.copies) if gain > 0 else inf

    def next_to_pay(self, adopted: int | None) -> float:
        """The shortest life with which a candidate that was left pays, beside the one of the size that was adopted."""
        base = self.outcomes[adopted].gain if adopted is not None else 0.0
        return min((self.breaks_even(o.gain - base, o.size) for o in self.outcomes.values()), default=inf)

    def _packed(self, codec: Codec, every: int = 1) -> float:
        """Bytes of a message; the judges may be larger or smaller than the later messages are on average."""
        judges = self._judges[::every]
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
        packers.append(PresetDeflate(parent.content, 6))
    return min(len(packer.pack(dictionary.content)) for packer in packers) + _FORM


_FORM = 24
"""bytes that a dictionary travels with beside its content"""
