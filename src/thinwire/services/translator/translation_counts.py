"""What a translation has done so far, and what went wrong, in numbers the ledger takes over."""

from __future__ import annotations

from thinwire.codec import Counts

MAX_PROBLEMS = 64


class TranslationCounts:
    """events: of the log, each once; classes: what was encoded for each class that is open, and the bytes it took."""

    def __init__(self) -> None:
        self.events = 0
        self.classes: dict[str, Counts] = {}
        self._before = 0

    @property
    def encodings(self) -> int:
        """Events encoded, once for each class that takes them."""
        return self._before + sum(counts.events for counts in self.classes.values())

    def open(self, class_id: str) -> Counts:
        """A class begins."""
        return self.classes.setdefault(class_id, Counts())

    def close(self, class_id: str) -> None:
        """A class ends; what was encoded for it still counts."""
        self._before += self.classes.pop(class_id).events


class Problems(dict[str, int]):
    """What went wrong, in words, and how often. Only so many are kept: the oldest go first.

    >>> problems = Problems()
    >>> problems.note("the same"); problems.note("the same"); problems
    {'the same': 2}
    """

    def note(self, problem: str) -> None:
        """It happened again, or for the first time."""
        self[problem] = self.pop(problem, 0) + 1
        if len(self) > MAX_PROBLEMS:
            del self[next(iter(self))]
