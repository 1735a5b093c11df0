"""Predict: estimate the lives of the dictionaries of a stream, and examine a dictionary when its life ends.

Section 5.3 and algorithms 5.1 to 5.3 of the thesis (C. Doblander, Compression in Publish/Subscribe Systems, 2018). BR
is the share of bytes saved in per cent (`byte_account`). Lives are in messages. The constants:

    history      {50, 100, 200, 300, 500} messages, one step more after each decayed dictionary; first after 500
    size         the multiple of the mean message at which a parabola over {0.5, 1, 2, 3, 5, 8, 13, 21} flattens
    MC           predicted life: MC.base until six lives were observed, then ordinary least squares over the features
                 of the substring repository
    MC.base      messages after which a dictionary has cost a thousandth of what it saved (equation 5.3.4)
    age          a dictionary is prolonged six times at most

Equation 5.3.4 is printed as 1000 oh (100 - BR) / (100 mean); its text, "amortised 1000 times, an overhead of 0.1 %",
means 1000 oh / (mean (1 + |S|) BR / 100), where oh = |D| (|P| + |S|) are the bytes sent for the dictionary to |P|
publishers and |S| subscribers, and mean is the mean size of messages. Both are implemented; the text is the default.

Equation 5.3.7 as printed is never negative, so its three cases cannot be distinguished. BR.dict is the BR that is
expected of the dictionary, BR.now the BR of the latest messages, BR.avg a moving average. Here, with I = BR.dict / 100:

    better     BR.now - BR.dict >= I: twice the life, and a higher expected BR
    decayed    max(BR.avg, BR.dict) - BR.now >= I: half the life is recorded, more history, a new dictionary
    the same   its life is recorded, one year older, twice the life; at six a new dictionary

`ObservedLives` predicts the life of a dictionary from its features by ordinary least squares over a few observations.

>>> lives = ObservedLives()
>>> for volatility in (1.0, 2.0, 3.0):
...     lives.record((volatility, 5.0), 4000.0 - 1000 * volatility)
>>> len(lives), round(lives.predict((2.5, 5.0)))
(3, 1500)

`Repository` stores the substrings of dictionaries and how constant their scores were.

Section 5.3.1 of the thesis. A substring s that occurs O times has the score O (|s| - 3) / |s| (equation 5.3.1: a
reference costs three bytes). A substring that is found inside longer ones splits them (demerge); one that overlaps with
nothing is added (put). Two features follow: the mean standard deviation of the scores (equation 5.3.2) and the mean
score (5.3.3).

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
from typing import Literal

import numpy as np
from pydivsufsort import divsufsort, kasai  # type: ignore[import-untyped]

from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.dictionaries.codecs import codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies.policy import (
    KEEP,
    DictionaryPolicy,
    History,
    Prolong,
    Proposal,
    Reasons,
    Replace,
    latest,
)
from thinwire.dictionaries.topology import ONE_TO_ONE, Topology
from thinwire_lab.reproduce.dictionaries.policies.adaptive import SIZE_MULTIPLIERS, multiplier
from thinwire_lab.reproduce.dictionaries.policies.training_sample import reduction, zstd_3

Features = tuple[float, float]
"""mean standard deviation of the scores of substrings, and their mean"""
MAX_STORED = 256
"""observations of lives, and substrings, that are stored"""


class ObservedLives:
    """Observed lives of dictionaries in messages, with their features."""

    def __init__(self) -> None:
        self._seen: deque[tuple[Features, float]] = deque(maxlen=MAX_STORED)

    def __len__(self) -> int:
        return len(self._seen)

    def record(self, features: Features, life: float) -> None:
        self._seen.append((features, life))

    def predict(self, features: Features) -> float:
        """Return the expected life. If several lines fit equally well, the flattest is used."""
        rows = np.asarray([(1.0, *features) for features, _ in self._seen])
        lives = np.asarray([life for _, life in self._seen])
        weights = np.linalg.lstsq(rows, lives, rcond=None)[0]
        return float(np.asarray((1.0, *features)) @ weights)


SHORTEST = 4
"""bytes; a shorter substring is not worth a reference"""
LONGEST = 4096
TEXT = 1 << 16
"""bytes of the latest messages that are searched for substrings"""
_SEPARATOR = b"\n"


class Repository:
    """Substrings of a stream with all their scores, the latest last."""

    def __init__(self) -> None:
        self._found: dict[bytes, tuple[float, ...]] = {}

    @property
    def scores(self) -> dict[bytes, float]:
        """The latest score of each substring."""
        return {text: scores[-1] for text, scores in self._found.items()}

    def take(self, found: Mapping[bytes, float]) -> None:
        """Add substrings with their scores."""
        for text, value in found.items():
            holders = [stored for stored in self._found if text in stored and stored != text]
            if holders:
                self.demerge(text, value, holders)
            else:
                self.put(text, value)
        best = sorted(self._found, key=lambda text: -self._found[text][-1])[:MAX_STORED]
        self._found = {text: self._found[text] for text in best}

    def put(self, text: bytes, value: float) -> None:
        """Add a substring, or the score of an existing one."""
        self._found[text] = (*self._found.get(text, ()), value)

    def demerge(self, text: bytes, value: float, holders: Sequence[bytes]) -> None:
        """Split longer substrings at this one; the rests keep their scores."""
        for holder in holders:
            scores = self._found.pop(holder)
            self._found.setdefault(text, scores)
            for rest in holder.split(text):
                if len(rest) >= SHORTEST:
                    self._found.setdefault(rest, scores)
        self.put(text, value)

    @property
    def features(self) -> tuple[float, float]:
        """Return the mean standard deviation of the scores, and the mean score."""
        count = max(len(self._found), 1)
        deviations = sum(float(np.std(scores)) for scores in self._found.values())
        return deviations / count, sum(self.scores.values()) / count


def score(length: int, times: int) -> float:
    """Return the score of a substring of this length that occurs this often.

    >>> score(6, 10), score(3, 10)
    (5.0, 0.0)
    """
    return times * max(0, length - 3) / length


def substrings(messages: Sequence[bytes], most: int = MAX_STORED) -> dict[bytes, float]:
    """Return the best substrings that occur more than once, none inside another, with their scores."""
    text = _SEPARATOR.join(messages)[-TEXT:]
    # Equal text at many offsets gives many candidates: four times the required number is enough.
    candidates = sorted(_repeats(text), key=lambda found: (-score(*found[:2]), found))[: 4 * most]
    chosen: dict[bytes, float] = {}
    for length, times, at in candidates:
        part = text[at : at + length]
        if (
            len(chosen) < most
            and _SEPARATOR not in part
            and not any(part in other or other in part for other in chosen)
        ):
            chosen[part] = score(length, times)
    return chosen


def _repeats(text: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield every longest repeat: length, count, and one offset (the intervals of the array of prefixes)."""
    places, shared = _sorted_suffixes(text)
    open_: list[tuple[int, int]] = []  # length, and start of its interval in the array
    for here, length in enumerate([*shared, 0]):
        begins = here
        while open_ and open_[-1][0] > length:
            found, begins = open_.pop()
            yield min(found, LONGEST), here - begins + 1, places[begins]
        if length >= SHORTEST and (not open_ or open_[-1][0] < length):
            open_.append((length, begins))


def _sorted_suffixes(text: bytes) -> tuple[list[int], list[int]]:
    """Return the sorted suffixes, and the length of the prefix that each shares with the next."""
    if len(text) < 2 * SHORTEST:
        return [], []
    places = divsufsort(text)
    return places.tolist(), kasai(text, places).tolist()[:-1]


HISTORIES = (50, 100, 200, 300, 500)
FIRST = 500
MAX_AGE = 6
"""number of times that a dictionary is prolonged"""
ENOUGH = 6
"""lives to observe before any is predicted"""
AMORTISED = 1000
"""multiple of its cost that a dictionary saves in its life"""
MAX_FACTOR = 64
"""a predicted life is limited to this factor of MC.base in both directions: six doublings"""

Reading = Literal["words", "printed"]


class Predict(DictionaryPolicy):
    """Predicts the lives of dictionaries.

    topology: numbers of publishers and subscribers
    reading: interpretation of equation 5.3.4

    >>> policy = Predict(Topology(1000))
    >>> for n in range(500):
    ...     policy.offer(b'{"room": "11.%d", "temperature": %d.5}' % (n % 7, n % 31))
    >>> proposal = policy.propose()
    >>> type(proposal).__name__, proposal.why["case"], proposal.life == round(proposal.why["MC.base"])
    ('Replace', 'first', True)
    """

    name = "predict"

    def __init__(self, topology: Topology = ONE_TO_ONE, reading: Reading = "words") -> None:
        self.topology = topology
        self.reading = reading
        self.lives = ObservedLives()
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
        if self._age >= MAX_AGE:
            return self._replace("too old", {"age": self._age})
        return self._examine(self._dictionary)

    def _examine(self, dictionary: Dictionary) -> Proposal:
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
        return self._prolong("same", numbers) if self._age < MAX_AGE else self._replace("same, and old", numbers)

    def _record(self, life: float) -> None:
        self.lives.record(self._features, life)

    def _prolong(self, case: str, numbers: Reasons) -> Prolong:
        served = self._life
        self._life *= 2
        self._due = self._born + round(self._life)
        return Prolong(round(self._life - served), {"case": case, **numbers, "MC": self._life})

    def _replace(self, case: str, numbers: Reasons) -> Proposal:
        found = self._train()
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

    def _train(self) -> tuple[Dictionary, int] | None:
        """Return a dictionary of the present history, or of a longer one if that is too short for training."""
        times = self._choose_size()
        for step in range(self._step, len(HISTORIES)):
            made = zstd_3(self._history.last(HISTORIES[step]), round(times * self._history.mean))
            if made is not None:
                self._step = step
                return made, times
        return None

    def _choose_size(self) -> int:
        """Return the size of dictionaries as a multiple of the mean message (algorithm 5.1)."""
        messages, mean = self._history.last(FIRST), self._history.mean
        made = [(times, zstd_3(messages, round(times * mean))) for times in SIZE_MULTIPLIERS]
        return multiplier([(times, one.facts.ratio) for times, one in made if one is not None and one.facts])

    def _base(self, made: Dictionary) -> float:
        """Return MC.base, at least one message."""
        saved = max(made.facts.ratio if made.facts else 0.0, 1.0)
        overhead = travelling.cost(made) * self.topology.receivers
        mean = max(self._history.mean, 1.0)
        if self.reading == "printed":
            return max(1.0, AMORTISED * overhead * (100 - saved) / (100 * mean))
        return max(1.0, AMORTISED * overhead / (mean * self.topology.copies * saved / 100))

    def _predict(self, base: float) -> float:
        """Return the predicted life MC (equation 5.3.5), from MC.base."""
        if len(self.lives) < ENOUGH:
            return base
        return min(max(self.lives.predict(self._features), base / MAX_FACTOR), base * MAX_FACTOR)
