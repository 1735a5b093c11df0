"""What a scheme did with a stream: what was delivered, what its filters passed on, and how many of them looked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinwire.filters.thresholds import Ticks

_CELLS = 1 << 20
"""pairs that a kernel may write at once"""


@dataclass(frozen=True)
class Passage:
    """Pairs of a place in the stream and a threshold, places ascending, thresholds ascending at each place.

    places, thresholds: what was delivered
    passed_at, passed: the filters that passed a value on or delivered it, each named by the threshold it stands for
    events: values of the stream
    touched: how many filters looked at a value, all values together
    """

    places: Ticks
    thresholds: Ticks
    passed_at: Ticks
    passed: Ticks
    events: int
    touched: int

    def of(self, threshold: int) -> Ticks:
        """Places of what one threshold was given."""
        found: Ticks = self.places[self.thresholds == threshold]
        return found


def ordered(places: Ticks, names: Ticks) -> tuple[Ticks, Ticks]:
    """Pairs in the order of a passage."""
    order = np.lexsort((names, places))
    return places[order], names[order]


def pieces(values: Ticks, filters: int) -> Iterator[tuple[int, Ticks]]:
    """A stream cut so that all filters together may write at every value; with the place where each piece begins."""
    size = max(1, _CELLS // max(1, filters))
    return ((at, values[at : at + size]) for at in range(0, values.size, size))
