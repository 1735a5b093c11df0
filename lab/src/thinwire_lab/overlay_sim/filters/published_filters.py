"""ClampMove: one upper filter over many thresholds that never hides from any of them what it should see.

The upper filter may drop a value only where all thresholds below would. So after every value its ball is moved inside
what their intervals have in common; that is always wide enough for a ball of half the smallest threshold. Exact on any
stream. Whoever knows the common interval needs no ball, which is what the index is built on; the scheme is kept to show
where the cooperating filters were going.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinwire.errors import ConfigError
from thinwire.filters.thresholds import Ticks, checked_threshold, checked_thresholds, checked_tick, checked_ticks
from thinwire_lab.overlay_sim.filters.published_filters_passage import Passage


class Clamped:
    """Thresholds below one upper filter.

    radius: of the upper filter; at most half the smallest threshold, which is also the default

    >>> Clamped([7, 11], value=0).run(-np.arange(1, 13)).places.tolist()
    [7, 11]
    """

    def __init__(self, thresholds: Iterable[int], value: int, radius: int | None = None) -> None:
        self.thresholds = checked_thresholds(thresholds)
        widest = int(self.thresholds[0]) // 2 if self.thresholds.size else 0
        self.radius = widest if radius is None else checked_threshold(radius)
        if self.radius > widest:
            raise ConfigError("the ball would not fit below all thresholds", radius=self.radius, limit=widest)
        self._centre = checked_tick(value)
        self._held = np.full(self.thresholds.size, self._centre, dtype=np.int64)

    def run(self, values: Ticks) -> Passage:
        """Offers all values, in order."""
        ticks = checked_ticks(values)
        fired = [self._offer(x) for x in ticks.tolist()]
        looked = [at for at, each in enumerate(fired) if each is not None]
        names = [self.thresholds[each] for each in fired if each is not None]
        places = np.repeat(np.array(looked, dtype=np.int64), [each.size for each in names])
        thresholds = np.concatenate([self.thresholds[:0], *names])
        touched = ticks.size + len(looked) * self.thresholds.size
        return Passage(places, thresholds, places, thresholds, ticks.size, touched)

    def _offer(self, x: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """Which thresholds fire; None where the upper filter drops the value."""
        fired = None
        if abs(x - self._centre) > self.radius:
            fired = np.abs(x - self._held) > self.thresholds
            self._held[fired] = x
        self._centre = self._clamped(x)
        return fired

    def _clamped(self, x: int) -> int:
        low = int((self._held - self.thresholds).max(initial=-(1 << 63)))
        high = int((self._held + self.thresholds).min(initial=(1 << 63) - 1))
        return min(max(x, low + self.radius), high - self.radius)
