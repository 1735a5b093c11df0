"""Which events boxes hold, as sets of bits: a sample of events makes a box two places in the order of each axis.

Of the events in their order along an axis, those from one place up to another are the difference of two sets that begin
at the first event. Such sets are kept for every place; a box then holds what all its sides hold, a word of 64 events at
a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.workload.random_rows_randomness import Floats

Places = NDArray[np.int32]
Words = NDArray[np.uint64]

MOST_EVENTS = 20_000
"""events of a sample: sets of more take above 50 MB an axis"""


class Deliveries(NamedTuple):
    """A sample of events in the order of each axis.

    ordered: by axis, the coordinates of the events, ascending
    until: by axis and place, the set of events before that place
    """

    ordered: Floats
    until: Words

    @classmethod
    def of(cls, events: Floats) -> Deliveries:
        """The sets of a sample of events."""
        count, axes = events.shape
        if count > MOST_EVENTS:
            raise ConfigError("a sample of events is smaller", events=count, highest=MOST_EVENTS)
        order = np.argsort(events, axis=0, kind="stable")
        until = np.zeros((axes, count + 1, -(-count // 64)), dtype=np.uint64)
        for axis in range(axes):
            places = np.arange(count)
            until[axis, places + 1, order[:, axis] // 64] = np.uint64(1) << (order[:, axis] % 64).astype(np.uint64)
            np.bitwise_or.accumulate(until[axis], axis=0, out=until[axis])
        return cls(np.ascontiguousarray(np.take_along_axis(events, order, axis=0).T), until)

    def sides(self, low: Floats, high: Floats) -> tuple[Places, Places]:
        """Of each box and axis the place of its first event, and the place after its last one."""
        begin, end = np.empty(low.shape, dtype=np.int32), np.empty(low.shape, dtype=np.int32)
        for axis, ordered in enumerate(self.ordered):
            begin[:, axis] = np.searchsorted(ordered, low[:, axis], side="left")
            end[:, axis] = np.searchsorted(ordered, high[:, axis], side="right")
        return begin, end
