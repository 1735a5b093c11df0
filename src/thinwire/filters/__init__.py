"""Filters: threshold indexes, rectangle indexes, `where` predicates and composite subscriptions.

Indexes need compiled kernels, which take half a second to load. Parsing an expression does not load them.
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.filters.greedy_filter import greedy, within
    from thinwire.filters.rectangle_index import Distinct, RectangleIndex, distinct
    from thinwire.filters.threshold_index import IntervalIndex
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "greedy_filter": "greedy within",
            "rectangle_index": "Distinct RectangleIndex distinct",
            "threshold_index": "IntervalIndex",
        },
    )

__all__ = [
    "Distinct",
    "IntervalIndex",
    "RectangleIndex",
    "distinct",
    "greedy",
    "within",
]
