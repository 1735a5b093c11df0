"""Adaptive: compare the dictionary with a new one when it has amortised often enough.

Algorithms 4.1 to 4.3 of the thesis (C. Doblander, Compression in Publish/Subscribe Systems, 2018). If the new
dictionary is not better, later ones are trained on a longer history or are larger. The constants:

    first dictionary       after 100 messages, to live 2000 times its time to amortise
    time to amortise       |D| / (R BR): |D| bytes of the dictionary, R rate of the stream in bytes, BR share of bytes
                           saved on the later 30 % of the sample
    a new one lives        10 times its time to amortise, times the number of gains in a row cubed
    it replaces            if it saves more by `gain` (1 to 5) points than the one in use
    otherwise              the gains in a row are reset, the next comparison is after twice the last wait, and history
                           and size increase by one step of `HISTORIES` and `MULTIPLIERS`, in turn, four times at most

Algorithm 4.1 prints the inverse of the share saved; here it is 1 - packed/plain. The wait without a gain is called the
time to pay off and not defined; it is interpreted as the previous wait, so that a good dictionary is compared less and
less often. The numbers of publishers and subscribers are not used.

Times are in messages, so the rate is the mean size of a message.

`multiplier` chooses the size of a dictionary (algorithm 5.1 of the thesis). It fits BR over the multiplier by a
second-order polynomial and increases the size in whole multiples of the mean message until one more gains less than 3
points. The thesis uses a Gauss-Newton optimiser; the polynomial is linear in its coefficients, so one step of it is
ordinary least squares, as here.

>>> multiplier([(0.5, 40.0), (1, 60.0), (2, 72.0), (3, 76.0), (5, 80.0), (8, 82.0), (13, 82.5), (21, 83.0)])
7
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thinwire.dictionaries.codecs import codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies.policy import (
    KEEP,
    DictionaryPolicy,
    History,
    Prolong,
    Proposal,
    Replace,
    latest,
)
from thinwire_lab.reproduce.dictionaries.policies.fixed_rate import HISTORIES, MULTIPLIERS, steps
from thinwire_lab.reproduce.dictionaries.policies.training_sample import reduction, zstd_3

FIRST = 100
"""messages before the first dictionary, and smallest history"""
FIRST_TIMES, TIMES = 2000, 10
"""life of the first and of a later dictionary, in times to amortise"""
MAX_GROWTHS = 4
LEAST_SAVED = 0.01
"""smallest share saved that is used as a divisor; below it a dictionary would never amortise"""


class Adaptive(DictionaryPolicy):
    """Replaces a dictionary if a new one saves enough more bytes; compares less often while the dictionary stays good.

    gain: points of BR that a new dictionary must gain
    train: trainer of dictionaries

    >>> policy = Adaptive(gain=2)
    >>> for n in range(100):
    ...     policy.offer(b'{"room": "11.%d", "temperature": %d.5}' % (n % 7, n % 31))
    >>> proposal = policy.propose()
    >>> type(proposal).__name__, proposal.why["gains in a row"], proposal.life > 2000
    ('Replace', 0, True)
    """

    name = "adaptive"

    def __init__(self, gain: float = 1.0, train: Callable[[Sequence[bytes], int], Dictionary | None] = zstd_3) -> None:
        self.gain = gain
        self.train = train
        self._history = History(FIRST)
        self._seen = 0
        self._since = 0
        self._wait = 0.0
        self._gains = 0
        self._growths = 0
        self._dictionary: Dictionary | None = None

    def offer(self, message: bytes) -> None:
        self._seen += 1
        self._history.add(message)

    def propose(self) -> Proposal:
        if self._seen < FIRST or self._seen - self._since < self._wait:
            return KEEP
        return self._first() if self._dictionary is None else self._compare()

    def _first(self) -> Proposal:
        made = self._train()
        if made is None:
            self._schedule(max(2 * self._wait, float(FIRST)))
            return KEEP
        return self._adopt(made, FIRST_TIMES * self._amortised(made), {})

    def _compare(self) -> Proposal:
        assert self._dictionary is not None
        made = self._train()
        now = reduction(latest(self._history.last(self._length)), codec_of(self._dictionary))
        new = made.facts.ratio if made is not None and made.facts is not None else 0.0
        numbers = {"saved now": now, "saved by a new one": new, "needed gain": self.gain}
        if made is not None and new - now > self.gain:
            self._gains += 1
            return self._adopt(made, TIMES * self._gains**3 * self._amortised(made), numbers)
        self._gains = 0
        self._schedule(2 * self._wait)
        if self._growths < MAX_GROWTHS:
            self._grow()
        return Prolong(_messages(self._wait), {**numbers, **self._settings()})

    def _train(self) -> Dictionary | None:
        return self.train(self._history.last(self._length), round(self._multiplier * self._history.mean))

    def _adopt(self, made: Dictionary, wait: float, numbers: dict[str, float]) -> Replace:
        self._dictionary = made
        self._schedule(wait)
        facts = {**numbers, "time to amortise": self._amortised(made), **self._settings()}
        return Replace(made, _messages(wait), facts)

    def _schedule(self, wait: float) -> None:
        self._wait = wait
        self._since = self._seen

    def _grow(self) -> None:
        self._growths += 1
        self._history.messages = max(FIRST, self._length)

    @property
    def _length(self) -> int:
        """Messages of the history; at least 100, because the first dictionary is built after 100."""
        return max(FIRST, HISTORIES[steps(self._growths)[0]])

    @property
    def _multiplier(self) -> float:
        return MULTIPLIERS[steps(self._growths)[1]]

    def _settings(self) -> dict[str, float]:
        return {"gains in a row": self._gains, "history": self._length, "multiplier": self._multiplier}

    def _amortised(self, made: Dictionary) -> float:
        saved = max((made.facts.ratio if made.facts else 0.0) / 100, LEAST_SAVED)
        return len(made.content) / max(self._history.mean * saved, 1e-9)


def _messages(wait: float) -> int:
    return max(1, round(wait))


SIZE_MULTIPLIERS = (0.5, 1, 2, 3, 5, 8, 13, 21)
"""sizes to compare, as multiples of the mean message (equation 5.3.9)"""
LEAST_GAIN = 3.0
"""points of BR that one more mean message must gain"""


def multiplier(trials: Sequence[tuple[float, float]]) -> int:
    """Return the size, in mean messages, at which one more gains less than 3 points; `trials` are (multiplier, BR)."""
    curve = fit_parabola(trials)
    previous, size, largest = 0.0, 0, max((tried for tried, _ in trials), default=1.0)
    while size <= largest:
        size += 1
        saved = float(np.polyval(curve, size))
        if saved - previous < LEAST_GAIN:
            break
        previous = saved
    return size


def fit_parabola(trials: Sequence[tuple[float, float]]) -> list[float]:
    """Return the coefficients of the parabola, highest power first; of a line or a constant for too few trials.

    >>> [round(c, 6) for c in fit_parabola([(0, 1.0), (1, 3.0), (2, 9.0)])]
    [2.0, 0.0, 1.0]
    """
    if not trials:
        return [0.0]
    at, found = zip(*trials, strict=True)
    degree = min(2, len(set(at)) - 1)
    return [float(c) for c in np.linalg.lstsq(np.vander(at, degree + 1), np.asarray(found), rcond=None)[0]]
