"""Predict: learn how long the dictionaries of a stream last, and look at them when they are due.

Section 5.3 and algorithms 5.1 to 5.3 of the thesis. The constants:

    history      {50, 100, 200, 300, 500} messages, one step more whenever a dictionary has decayed; first after 500
    size         the multiple of the mean message where a parabola over {0.5, 1, 2, 3, 5, 8, 13, 21} flattens
    MC.base      messages after which a dictionary has cost a thousandth of what it saved (equation 5.3.4)
    MC           MC.base until six lives have been seen, then ordinary least squares over the features of the
                 substring repository
    age          a dictionary is prolonged six times at most

Equation 5.3.4 prints 1000 oh (100 - BR) / (100 mean); its words, "amortised 1000 times, an overhead of 0.1 %", mean
1000 oh / (mean (1 + |S|) BR / 100), where oh = |D| (|P| + |S|). Both are offered, the words by default.

Equation 5.3.7 as printed is never negative, so that its three cases cannot be told apart. Here, with I = BR.dict / 100:

    better     BR.now - BR.dict >= I: twice the life, and more is expected from now on
    decayed    max(BR.avg, BR.dict) - BR.now >= I: half the life is recorded, more history, a new dictionary
    the same   its life is recorded, one year older, twice the life; at six a new dictionary

Ordinary least squares over a handful of observations: how long dictionaries with such features have lasted.

>>> lives = Lives()
>>> for volatility in (1.0, 2.0, 3.0):
...     lives.record((volatility, 5.0), 4000.0 - 1000 * volatility)
>>> len(lives), round(lives.predict((2.5, 5.0)))
(3, 1500)

The substring repository: which substrings dictionaries were made of, and how steady their worth has been.

Section 5.3.1 of the thesis. A substring s that occurs O times is worth O (|s| - 3) / |s| (equation 5.3.1: a reference
costs three bytes). A substring found again that lies inside longer ones takes them apart (demerge); one that overlaps
with nothing is added (put). Two features follow: the mean standard deviation of the scores (equation 5.3.2) and the
mean score (5.3.3).

>>> repository = Repository()
>>> for text in (b"abcdfgwxyz", b"abcdfgjklp"):
...     repository.put(text, 4.0)
>>> repository.take({b"abcdfg": 6.0})
>>> sorted(repository.scores)
[b'abcdfg', b'jklp', b'wxyz']
>>> repository.features
(0.33..., 4.66...)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.dictionaries.codecs import codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies.policy import (
    KEEP,
    History,
    Prolong,
    Proposal,
    Reasons,
    Replace,
    SequentialPolicy,
    Trainer,
    latest,
)
from thinwire.dictionaries.topology import ONE_TO_ONE, Topology
from thinwire.errors import MissingExtra
from thinwire_lab.reproduce.dictionaries.policies.adaptive import SIZE_MULTIPLIERS, multiplier
from thinwire_lab.reproduce.dictionaries.policies.training_sample import reduction, zstd_3

Features = tuple[float, float]
"""mean standard deviation of the scores of substrings, and their mean"""
MOST = 256
"""observations that are kept, the latest"""


class Lives:
    """Observed lives of dictionaries, in messages, with the features they had."""

    def __init__(self) -> None:
        self._seen: deque[tuple[Features, float]] = deque(maxlen=MOST)

    def __len__(self) -> int:
        return len(self._seen)

    def record(self, features: Features, life: float) -> None:
        """One more observation."""
        self._seen.append((features, life))

    def predict(self, features: Features) -> float:
        """The life to be expected; of all lines that fit equally well the flattest is taken."""
        rows = np.asarray([(1.0, *of) for of, _ in self._seen])
        lives = np.asarray([life for _, life in self._seen])
        weights = np.linalg.lstsq(rows, lives, rcond=None)[0]
        return float(np.asarray((1.0, *features)) @ weights)


SHORTEST = 4
"""bytes; a shorter one is not worth a reference"""
LONGEST = 4096
TEXT = 1 << 16
"""bytes of messages, the latest, in which substrings are looked for"""
_BETWEEN = b"\n"


@dataclass(frozen=True)
class SubstringScore:
    """How one substring has done: its score now, how often it was scored, and the sums of scores and their squares."""

    score: float
    times: int
    total: float
    squares: float

    def again(self, score: float) -> SubstringScore:
        return SubstringScore(score, self.times + 1, self.total + score, self.squares + score * score)

    @property
    def deviation(self) -> float:
        mean = self.total / self.times
        return sqrt(max(0.0, self.squares / self.times - mean * mean))


class Repository:
    """Substrings with their scores, over all looks at a stream."""

    def __init__(self) -> None:
        self._tracks: dict[bytes, SubstringScore] = {}

    @property
    def scores(self) -> dict[bytes, float]:
        return {text: track.score for text, track in self._tracks.items()}

    def take(self, found: Mapping[bytes, float]) -> None:
        """The substrings of one more look, with their scores."""
        for text, value in found.items():
            holders = [held for held in self._tracks if text in held and held != text]
            if holders:
                self.demerge(text, value, holders)
            else:
                self.put(text, value)
        best = sorted(self._tracks, key=lambda text: -self._tracks[text].score)[:MOST]
        self._tracks = {text: self._tracks[text] for text in best}

    def put(self, text: bytes, value: float) -> None:
        """Add a substring, or score one that is there."""
        track = self._tracks.get(text)
        self._tracks[text] = track.again(value) if track else SubstringScore(value, 1, value, value * value)

    def demerge(self, text: bytes, value: float, holders: Sequence[bytes]) -> None:
        """Take longer substrings apart at this one; what is left of them keeps what was known of them."""
        for holder in holders:
            track = self._tracks.pop(holder)
            self._tracks.setdefault(text, track)
            for rest in holder.split(text):
                if len(rest) >= SHORTEST:
                    self._tracks.setdefault(rest, track)
        self.put(text, value)

    @property
    def features(self) -> tuple[float, float]:
        """Mean standard deviation of the scores, and mean score."""
        tracks = self._tracks.values()
        count = max(len(tracks), 1)
        return sum(t.deviation for t in tracks) / count, sum(t.score for t in tracks) / count


def score(text: bytes, times: int) -> float:
    """What a substring is worth that occurs so often.

    >>> score(b"abcdef", 10), score(b"abc", 10)
    (5.0, 0.0)
    """
    return times * max(0, len(text) - 3) / len(text)


def substrings(messages: Sequence[bytes], most: int = MOST) -> dict[bytes, float]:
    """The best substrings that occur more than once, none inside another, with their scores."""
    text = _BETWEEN.join(messages)[-TEXT:]
    # Equal text at many places gives many candidates: the best few times as many as are wanted are enough.
    candidates = sorted(_repeats(text), key=lambda found: (-_worth(found), found))[: 4 * most]
    chosen: dict[bytes, float] = {}
    for length, times, at in candidates:
        part = text[at : at + length]
        if len(chosen) < most and _BETWEEN not in part and not any(part in held or held in part for held in chosen):
            chosen[part] = score(part, times)
    return chosen


def _worth(found: tuple[int, int, int]) -> float:
    length, times, _ = found
    return times * (length - 3) / length


def _repeats(text: bytes) -> Iterator[tuple[int, int, int]]:
    """Every longest repeat: length, how often, and where it begins once (the intervals of the array of prefixes)."""
    places, shared = _sorted_suffixes(text)
    open_: list[tuple[int, int]] = []  # length, and where in the array its interval begins
    for here, length in enumerate([*shared, 0]):
        begins = here
        while open_ and open_[-1][0] > length:
            found, begins = open_.pop()
            yield min(found, LONGEST), here - begins + 1, places[begins]
        if length >= SHORTEST and (not open_ or open_[-1][0] < length):
            open_.append((length, begins))


def _sorted_suffixes(text: bytes) -> tuple[list[int], list[int]]:
    """The suffixes in order, and how much each shares with the next."""
    if len(text) < 2 * SHORTEST:
        return [], []
    try:
        from pydivsufsort import divsufsort, kasai  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra("the policy predict needs a suffix array", extra="evaluation") from None
    places = divsufsort(text)
    return places.tolist(), kasai(text, places).tolist()[:-1]


HISTORIES = (50, 100, 200, 300, 500)
FIRST = 500
OLDEST = 6
ENOUGH = 6
"""lives to be seen before any is predicted"""
AMORTISED = 1000
WIDEST = 64
"""a predicted life is kept within this many times MC.base, either way: six doublings"""

Reading = Literal["words", "printed"]


class Predict(SequentialPolicy):
    """Knows the topology, learns the lives of dictionaries.

    topology: how many publishers and subscribers a dictionary has to reach
    reading: of equation 5.3.4
    train: what makes dictionaries

    >>> policy = Predict(Topology(1000))
    >>> for n in range(500):
    ...     policy.offer(b'{"room": "11.%d", "temperature": %d.5}' % (n % 7, n % 31))
    >>> proposal = policy.propose()
    >>> type(proposal).__name__, proposal.why["case"], proposal.life == round(proposal.why["MC.base"])
    ('Replace', 'first', True)
    """

    name = "predict"

    def __init__(self, topology: Topology = ONE_TO_ONE, reading: Reading = "words", train: Trainer = zstd_3) -> None:
        self.topology = topology
        self.reading = reading
        self.train = train
        self.lives = Lives()
        self._history = History(FIRST)
        self._repository = Repository()
        self._features: Features = (0.0, 0.0)
        self._step = 0
        self._seen = 0
        self._due = FIRST
        self._born = 0
        self._life = 0.0
        self._age = 0
        self._expected = self._average = 0.0
        self._dictionary: Dictionary | None = None

    def offer(self, message: bytes) -> None:
        self._seen += 1
        self._history.add(message)

    def propose(self) -> Proposal:
        if self._seen < self._due:
            return KEEP
        if self._dictionary is None:
            return self._replace("first", {})
        if self._age >= OLDEST:
            return self._replace("too old", {"age": self._age})
        return self._look(self._dictionary)

    def _look(self, dictionary: Dictionary) -> Proposal:
        now = reduction(latest(self._history.last(FIRST)), codec_of(dictionary))
        average, self._average = self._average, (self._average + now) / 2
        expected, least = self._expected, self._expected / 100
        numbers = {"BR.now": now, "BR.dict": expected, "BR.avg": average, "I": least, "age": self._age}
        if now - expected >= least:
            self._record(2 * self._life)
            self._expected = now
            return self._prolong("better", numbers)
        if max(average, expected) - now >= least:
            self._record(self._life / 2)
            self._step = min(self._step + 1, len(HISTORIES) - 1)
            return self._replace("decayed", numbers)
        self._record(self._life)
        self._age += 1
        return self._prolong("same", numbers) if self._age < OLDEST else self._replace("same, and old", numbers)

    def _record(self, life: float) -> None:
        self.lives.record(self._features, life)

    def _prolong(self, case: str, numbers: Reasons) -> Prolong:
        served = self._life
        self._life *= 2
        self._due = self._born + round(self._life)
        return Prolong(round(self._life - served), {"case": case, **numbers, "MC": self._life})

    def _replace(self, case: str, numbers: Reasons) -> Proposal:
        found = self._sampled()
        if found is None:
            self._due = self._seen + FIRST
            return Prolong(FIRST, {"case": "no dictionary could be made", **numbers})
        made, times = found
        self._repository.take(substrings(self._history.last(HISTORIES[self._step])))
        self._features = self._repository.features
        base = self._base(made)
        self._life = self._predict(base)
        self._dictionary, self._age, self._born = made, 0, self._seen
        self._expected = self._average = made.facts.ratio if made.facts else 0.0
        self._due = self._born + round(self._life)
        size: Reasons = {
            "history": len(self._history.last(HISTORIES[self._step])),
            "multiplier": times,
            "MC.base": base,
        }
        learned: Reasons = {"lives seen": len(self.lives), "deviation": self._features[0], "score": self._features[1]}
        return Replace(made, round(self._life), {"case": case, **numbers, **size, **learned})

    def _sampled(self) -> tuple[Dictionary, int] | None:
        """A new dictionary from the present history; from more where that is too little to train on."""
        times = self._probed()
        for step in range(self._step, len(HISTORIES)):
            made = self.train(self._history.last(HISTORIES[step]), round(times * self._history.mean))
            if made is not None:
                self._step = step
                return made, times
        return None

    def _probed(self) -> int:
        """The multiple of the mean message that dictionaries shall have (algorithm 5.1)."""
        messages, mean = self._history.last(FIRST), self._history.mean
        made = [(times, self.train(messages, round(times * mean))) for times in SIZE_MULTIPLIERS]
        return multiplier([(times, one.facts.ratio) for times, one in made if one is not None and one.facts])

    def _base(self, made: Dictionary) -> float:
        """MC.base, at least one message."""
        saved = max(made.facts.ratio if made.facts else 0.0, 1.0)
        overhead = travelling.cost(made) * self.topology.receivers
        mean = max(self._history.mean, 1.0)
        if self.reading == "printed":
            return max(1.0, AMORTISED * overhead * (100 - saved) / (100 * mean))
        return max(1.0, AMORTISED * overhead / (mean * self.topology.copies * saved / 100))

    def _predict(self, base: float) -> float:
        """Equation 5.3.5."""
        if len(self.lives) < ENOUGH:
            return base
        return min(max(self.lives.predict(self._features), base / WIDEST), base * WIDEST)
