"""Candidates for the next dictionary: what each would save over its life, and what sending it would cost.

Sizes are compared by hill climbing on a ladder of sizes, with few trainings.

>>> worth = {256: 1.0, 384: 5.0, 512: 10.0, 768: 20.0, 1024: 30.0, 1536: 38.0, 2048: 35.0, 3072: 32.0, 4096: 31.0}
>>> climb(list(worth), start=512, worth=worth.get)
1536
>>> climb(list(worth), start=256, worth=worth.get, steps=GROWING + NEAR)
2048
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import inf, log10
from typing import NamedTuple

from thinwire.dictionaries.codecs import Codec, Deflate, PresetDeflate, codec_of
from thinwire.dictionaries.dictionary import Dictionary, Facts
from thinwire.dictionaries.policies.lifetime_estimate import FIRST_LIFE, Form
from thinwire.dictionaries.policies.policy import DEFLATE, latest, packed
from thinwire.dictionaries.topology import Topology
from thinwire.dictionaries.training import ENOUGH, SEGMENTS, TrainingMethod, build, recast

LADDER = tuple(digit << power for power in range(7, 15) for digit in (2, 3))
"""bytes: 256, 384, 512, 768 and so on to 49,152"""
SEARCHING, GROWING, NEAR, REPLACING = (2, -2, 1, -1), (4,), (2, -2), (2,)
"""steps on the ladder: if nothing is known about the size; if a larger one may be better by now; around a better one;
for a replacement of similar size"""
JUDGES, MORE_JUDGES = 60, 80
"""messages of the later part, spread evenly, that evaluate all candidates; and how many more for every tenfold number
of receivers, because a wrong choice costs more"""
FEW = 4
"""one in `FEW` of them is used for the comparison with deflate and slow forms"""
FARTHER = 0.75
"""share of the measured saving that counts for a first dictionary: the evaluating messages follow right after the
training ones, and later messages profit less"""
SKETCH: Form = ("zstd", 3)
FORMS: tuple[Form, ...] = (SKETCH, ("dense", 9), ("brief", 6))
"""forms of a dictionary, fastest first; it is built for the first"""
LONG = 1
"""times the stream so far: a better dictionary that pays before the stream has grown by this is waited for"""
LEAST = 150
"""bytes of the smallest dictionary when sent"""
_FORM_BYTES = 24
"""bytes sent with a dictionary besides its content"""


def climb(
    sizes: Sequence[int], start: int, worth: Callable[[int], float | None], steps: Sequence[int] = SEARCHING
) -> int | None:
    """Return the best size found by taking each step as long as it improves; None if the best is unknown.

    worth: value of a size; None ends the climb in this direction
    """

    @cache
    def value(index: int) -> float:
        found = worth(sizes[index]) if 0 <= index < len(sizes) else None
        return -inf if found is None else found

    best = max(0, min(bisect_right(sizes, start) - 1, len(sizes) - 1))
    for step in steps:
        while value(best + step) > value(best):
            best += step
    return sizes[best] if value(best) > -inf else None


def fitting(sample: int) -> list[int]:
    """Return the sizes for which a sample of this many bytes is enough; always the smallest.

    >>> fitting(25_000), fitting(100)
    ([256, 384, 512, 768, 1024, 1536, 2048], [256])
    """
    return [size for size in LADDER if size == LADDER[0] or size * ENOUGH <= sample]


class Effort(NamedTuple):
    """How many dictionaries are built to take the best: from different messages or with different segments.

    Dictionaries that differ only so pack up to a third better or worse, above all small ones.

    attempts: number of dictionaries, at most
    sample: bytes of messages for each; sample_per_byte: and per byte of its size if that is more
    total: bytes of messages for all of them
    acceleration: see `TrainingMethod`
    """

    attempts: int
    sample: int
    sample_per_byte: int
    total: int
    acceleration: int


SKETCHED = Effort(attempts=4, sample=1 << 14, sample_per_byte=10, total=1 << 16, acceleration=2)
"""for the comparison of sizes and forms"""
FINISHED = Effort(attempts=8, sample=1 << 16, sample_per_byte=20, total=1 << 19, acceleration=1)
"""for the proposed dictionary"""


class Attempt(NamedTuple):
    """One of the dictionaries built: bytes of a packed message, length of its segments."""

    packed: float
    segment: int
    dictionary: Dictionary


@dataclass(frozen=True)
class TrialOutcome:
    """Evaluation of one candidate.

    segment: length of its segments
    size: bytes when sent
    gain: bytes per message less than at present
    saving, cost: bytes over its life, and bytes to all receivers
    """

    dictionary: Dictionary
    segment: int
    size: int
    gain: float
    saving: float
    cost: float


@dataclass
class CandidateTrial:
    """Candidates compared at one time.

    messages: the sample, oldest first; the later part evaluates
    codec: the codec in use
    life: messages for which a new dictionary is expected to live
    parent: the dictionary in use, which receivers have
    ahead: number of such lives over which sizes are compared; more than one if the expected life grows with the stream,
        so that no small dictionary is sent that a larger one would soon replace
    segments: lengths of segments to try
    faded: see `Decay`
    forms: codecs and levels to compare
    outcomes: the sketch of each size in the best form
    """

    messages: Sequence[bytes]
    codec: Codec
    topology: Topology
    life: float
    parent: Dictionary | None
    ahead: float = 1
    segments: Sequence[int] = SEGMENTS
    faded: float = 0.0
    forms: Sequence[Form] = FORMS
    outcomes: dict[int, TrialOutcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        later = latest(self.messages)
        self._earlier = self.messages[: len(self.messages) - len(later)]
        self.mean = sum(map(len, later)) / len(later)
        judges = JUDGES + round(MORE_JUDGES * log10(self.topology.receivers))
        self._judges = later[:: -(-len(later) // judges)]

    @cached_property
    def now(self) -> float:
        """Bytes of a packed message at present, slot included."""
        return self._packed(self.codec)

    @cached_property
    def deflated(self) -> float:
        """Bytes of a message without a dictionary, slot included; from fewer messages, because deflate is slow."""
        return self.now if self.codec is DEFLATE else self._packed(DEFLATE, FEW)

    @property
    def is_hopeless(self) -> bool:
        """Whether a dictionary would not pay even if it packed messages to nothing."""
        return self.now * self.topology.copies * self.life <= LEAST * self.topology.receivers

    def worth(self, size: int) -> float | None:
        """Return the value by which sizes are compared; None if no dictionary can be built."""
        found = self.outcomes.get(size) or self._sketch(size)
        if found is None:
            return None
        self.outcomes[size] = found
        return self._worth(found)

    def _worth(self, outcome: TrialOutcome) -> float:
        """Return the saving less the cost and less what is lost by waiting until the candidate pays.

        A first dictionary counts the saving over all lives: one that pays now is postponed for a better one that pays
        soon. A candidate that pays much later counts one life. A replacement counts one life, because a larger one can
        follow; so it is never larger than what pays now.
        """
        wait = max(0.0, outcome.cost / outcome.saving - 1) if outcome.saving > 0 else inf
        if wait > LONG:
            return outcome.saving - outcome.cost
        lives = FARTHER * self.ahead if self.parent is None else 1.0
        return (lives - wait / FIRST_LIFE) * outcome.saving - outcome.cost

    def spent(self, size: int, life: float) -> float:
        """Return the cost of messages and dictionary over a life as a share of the plain bytes."""
        if self.worth(size) is None:
            return inf
        found = self.outcomes[size]
        return (self.now - found.gain + found.cost / (life * self.topology.copies)) / max(self.mean, 1)

    def finished(self, size: int) -> TrialOutcome:
        """Return the candidate of this size, built from all messages if its sketch pays."""
        sketch = self.outcomes[size]
        best = self._best(self.messages, size, FINISHED) if sketch.saving > sketch.cost else None
        if best is None:
            return sketch
        like = sketch.dictionary
        built = recast(best.dictionary, like.codec, like.level)
        return self._outcome(replace(built, facts=like.facts), best.segment)

    def _sketch(self, size: int) -> TrialOutcome | None:
        """Return an estimate for a size, from a dictionary of the earlier messages."""
        best = self._best(self._earlier, size, SKETCHED)
        if best is None:
            return None
        return max((self._outcome(form, best.segment) for form in self._all_forms(best)), key=self._worth)

    def _best(self, messages: Sequence[bytes], size: int, effort: Effort) -> Attempt | None:
        """Return the attempt that packs the evaluating messages smallest."""
        lengths = list(dict.fromkeys(min(segment, size) for segment in self.segments))
        needed = max(effort.sample, effort.sample_per_byte * size)
        most = max(1, min(effort.attempts, effort.total // needed))
        shares = min(most, max(1, sum(map(len, messages)) // needed))
        attempts = []
        for number in range(min(most, shares * len(lengths))):
            segment = lengths[number % len(lengths)]
            share = messages[number % shares :: shares]
            sample = share[:: max(1, sum(map(len, share)) // needed)]  # evenly spread
            built = build(sample, TrainingMethod(*SKETCH, size, segment, effort.acceleration))
            if built is not None:
                attempts.append(Attempt(self._packed(codec_of(built)), segment, built))
        return min(attempts, key=lambda attempt: attempt.packed, default=None)

    def _all_forms(self, best: Attempt) -> Iterator[Dictionary]:
        """Yield the dictionary in every form, with its result on the evaluating messages."""
        few = self._packed(codec_of(best.dictionary), FEW) if len(self.forms) > 1 else 1.0
        for form in self.forms:
            dictionary, bytes_packed = recast(best.dictionary, *form), best.packed
            if form != SKETCH:
                bytes_packed *= self._packed(codec_of(dictionary), FEW) / few
            facts = Facts(len(self.messages), sum(map(len, self.messages)), 100 * (1 - bytes_packed / self.mean))
            yield replace(dictionary, facts=facts)

    def _outcome(self, dictionary: Dictionary, segment: int) -> TrialOutcome:
        assert dictionary.facts is not None
        gain = self.now - self.mean * (1 - dictionary.facts.ratio / 100)
        size = sent_size(dictionary, self.parent)
        saving = (gain - self.faded) * self.topology.copies * self.life
        return TrialOutcome(dictionary, segment, size, gain, saving, size * self.topology.receivers)

    @property
    def is_promising(self) -> bool:
        """Whether a candidate nearly pays, so that a larger sample may make it pay."""
        return any(2 * outcome.saving > outcome.cost for outcome in self.outcomes.values())

    def breaks_even(self, gain: float, size: int) -> float:
        """Return the messages after which a dictionary of `size` bytes that gains this per message has paid."""
        return size * self.topology.receivers / (gain * self.topology.copies) if gain > 0 else inf

    def next_to_pay(self, adopted: int | None) -> float:
        """Return the shortest life with which another candidate pays besides the adopted size."""
        base = self.outcomes[adopted].gain if adopted is not None else 0.0
        return min((self.breaks_even(o.gain - base, o.size) for o in self.outcomes.values()), default=inf)

    def _packed(self, codec: Codec, every: int = 1) -> float:
        """Return the bytes of a packed message, corrected for the size of the evaluating messages."""
        judges = self._judges[::every]
        return packed(judges, codec) * self.mean / max(sum(map(len, judges)), 1)


def sent_size(dictionary: Dictionary, parent: Dictionary | None) -> int:
    """Return the bytes of a dictionary when sent, or a few more, without trying the slowest packing.

    >>> sent_size(Dictionary(b"temperature" * 100, "zlib", level=6, largest=64), None)
    47
    """
    packers = [Deflate(6)] if parent is None else [Deflate(6), PresetDeflate(parent.content, 6)]
    return min(len(packer.pack(dictionary.content)) for packer in packers) + _FORM_BYTES
