"""Numbers for the sources of events, and for the events of each source, out of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]


class Sources:
    """Sources by the values of their dimensions, numbered as they come.

    >>> rooms = Sources(["room"])
    >>> codes = rooms.codes(pa.RecordBatch.from_pydict({"room": ["a", "b", "a"]}))
    >>> codes.tolist(), rooms.ordinals(codes).tolist(), rooms.ordinals(codes).tolist()
    ([0, 1, 0], [1, 1, 2], [3, 2, 4])
    """

    def __init__(self, dimensions: Sequence[str]) -> None:
        self._dimensions = list(dimensions)
        self._known: dict[tuple[Any, ...], int] = {}
        self._last: Ints = np.zeros(16, dtype=np.int64)

    def codes(self, batch: pa.RecordBatch) -> Ints:
        """The number of every row's source."""
        mixed: Ints = np.zeros(batch.num_rows, dtype=np.int64)
        columns = [pc.dictionary_encode(batch.column(name), null_encoding="encode") for name in self._dimensions]
        for column in columns:
            mixed = mixed * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
            # small again, however many dimensions follow
            mixed = np.unique(mixed, return_inverse=True)[1].astype(np.int64)
        _, first, places = np.unique(mixed, return_index=True, return_inverse=True)
        some = [column.take(pa.array(first)).to_pylist() for column in columns]
        names = list(zip(*some, strict=True)) if some else [()] * len(first)
        numbers = [self._known.setdefault(name, len(self._known)) for name in names]
        return np.array(numbers, dtype=np.int64)[places]

    def ordinals(self, codes: Ints) -> Ints:
        """How many events of its source there were by each row, that one included."""
        short = len(self._known) - len(self._last)
        if short > 0:
            self._last = np.concatenate([self._last, np.zeros(short + len(self._last), dtype=np.int64)])
        ranks, numbers, counts = ranked(codes)
        found: Ints = self._last[codes] + ranks + 1
        self._last[numbers] += counts
        return found


def ranked(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """How many of the same code stand before each; the codes there are, and how many of each.

    >>> [part.tolist() for part in ranked(np.array([7, 3, 7, 7]))]
    [[0, 0, 1, 2], [3, 7], [1, 3]]
    """
    order = np.argsort(codes, kind="stable")
    numbers, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
    ranks: Ints = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(first, counts)
    return ranks, numbers, counts
