"""What the schemes cost on one stream: filters that must look at a value, and deliveries, a value on average.

The unit differs: a filter of the index is a block of 32 thresholds, looked at in one go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from thinwire.filters.thresholds import Ticks, checked_thresholds, checked_ticks
from thinwire_lab.overlay_sim.filters.published_filters_passage import Passage


@dataclass(frozen=True)
class Cost:
    """A scheme on a stream: filters touched and deliveries, a value on average."""

    scheme: str
    touched: float
    fired: float


def costs(values: Ticks, thresholds: Iterable[int], step: int = 1, base: int | None = None) -> list[Cost]:
    """SF, MFD, MCF with chains of its own, and the index; all begin with the first value.

    step: nominal step of the cooperating filters
    base: of the decomposition, see `Decomposed`

    >>> import numpy as np
    >>> [(cost.scheme, cost.touched) for cost in costs(np.arange(9), [3, 7])]
    [('SF', 2.0), ('MFD', 1.75), ('MCF', 1.125), ('SRI', 0.25)]
    """
    from thinwire_lab.overlay_sim.filters.published_filters_mcf import Cooperative
    from thinwire_lab.overlay_sim.filters.published_filters_mfd import Decomposed
    from thinwire_lab.overlay_sim.filters.published_filters_single import SingleLevel

    ticks, distinct = checked_ticks(values), checked_thresholds(thresholds)
    start, rest = int(ticks[0]), ticks[1:]
    passages = {
        "SF": SingleLevel(distinct, start).run(rest),
        "MFD": Decomposed(distinct, start, base).run(rest),
        "MCF": Cooperative(distinct, start, step).run(rest),
    }
    return [*(_cost(name, passage) for name, passage in passages.items()), _indexed(distinct, start, rest)]


def _cost(scheme: str, passage: Passage) -> Cost:
    events = max(1, passage.events)
    return Cost(scheme, passage.touched / events, passage.places.size / events)


def _indexed(thresholds: Ticks, start: int, values: Ticks) -> Cost:
    from thinwire.filters.threshold_index import IntervalIndex

    index = IntervalIndex(thresholds, start)
    fired = sum(places.size for places, _ in index.offer_batches(values))
    events = max(1, values.size)
    return Cost("SRI", index.looked / events, fired / events)
