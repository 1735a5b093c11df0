"""Conformance: subscribers say how far their copy of a value may be off, and are told only when it would be further.

Schemes need compiled kernels, which cost half a second to load: who only reads an expression does not pay for them.

Matching: which rectangles hold a point, exactly, for many points at a time.

Indexes need compiled kernels, which cost half a second to load: who only reads a `where` does not pay for them.
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
