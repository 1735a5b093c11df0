"""The substring repository: which substrings dictionaries were made of, and how steady their worth has been.

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from thinwire.errors import MissingExtra

SHORTEST = 4
"""bytes; a shorter one is not worth a reference"""
LONGEST = 4096
MOST = 256
"""substrings that are kept, the best"""
TEXT = 1 << 16
"""bytes of messages, the latest, in which substrings are looked for"""
_BETWEEN = b"\n"


@dataclass(frozen=True)
class Track:
    """How one substring has done: its score now, how often it was scored, and the sums of scores and their squares."""

    score: float
    times: int
    total: float
    squares: float

    def again(self, score: float) -> Track:
        return Track(score, self.times + 1, self.total + score, self.squares + score * score)

    @property
    def deviation(self) -> float:
        mean = self.total / self.times
        return sqrt(max(0.0, self.squares / self.times - mean * mean))


class Repository:
    """Substrings with their scores, over all looks at a stream."""

    def __init__(self) -> None:
        self._tracks: dict[bytes, Track] = {}

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
        self._tracks[text] = track.again(value) if track else Track(value, 1, value, value * value)

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
