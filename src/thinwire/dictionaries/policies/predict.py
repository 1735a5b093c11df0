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
"""

from __future__ import annotations

from typing import Literal

from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.dictionaries.byte_account import ALONE, Topology
from thinwire.dictionaries.codecs import codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies.adaptive_polynomial import MULTIPLIERS, multiplier
from thinwire.dictionaries.policies.policy import KEEP, OneByOne, Prolong, Proposal, Replace, Trainer, Why, zstd_3
from thinwire.dictionaries.policies.policy_estimating import latest, reduction
from thinwire.dictionaries.policies.policy_history import History
from thinwire.dictionaries.policies.predict_least_squares import Features, Lives
from thinwire.dictionaries.policies.predict_substrings import Repository, substrings

HISTORIES = (50, 100, 200, 300, 500)
FIRST = 500
OLDEST = 6
ENOUGH = 6
"""lives to be seen before any is predicted"""
AMORTISED = 1000
WIDEST = 64
"""a predicted life is kept within this many times MC.base, either way: six doublings"""

Reading = Literal["words", "printed"]


class Predict(OneByOne):
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

    def __init__(self, topology: Topology = ALONE, reading: Reading = "words", train: Trainer = zstd_3) -> None:
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

    def _prolong(self, case: str, numbers: Why) -> Prolong:
        served = self._life
        self._life *= 2
        self._due = self._born + round(self._life)
        return Prolong(round(self._life - served), {"case": case, **numbers, "MC": self._life})

    def _replace(self, case: str, numbers: Why) -> Proposal:
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
        size: Why = {"history": len(self._history.last(HISTORIES[self._step])), "multiplier": times, "MC.base": base}
        learned: Why = {"lives seen": len(self.lives), "deviation": self._features[0], "score": self._features[1]}
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
        made = [(times, self.train(messages, round(times * mean))) for times in MULTIPLIERS]
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
