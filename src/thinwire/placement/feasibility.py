"""Which types are lighter than which: fewer messages, less work, more time. A lighter one fits where a heavier does.

Latency only rises with load, so the place of a heavier topic on a host may always be given to a lighter one. Where the
relaxation knows that, one pattern stands for many, and prices never fall from a type to a heavier one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thinwire.placement.feasibility_judge import Judge

Lighter = NDArray[np.bool_]
"""a row and a column a type: is that of the row lighter than that of the column?"""


def lighter(judge: Judge) -> Lighter:
    """Every pair of types that can be compared."""
    rates, seconds, promises = judge.rates, judge.seconds, judge.promises
    below = (rates[:, None] <= rates) & (seconds[:, None] <= seconds) & (promises[:, None] >= promises)
    np.fill_diagonal(below, False)
    return np.asarray(below)


def steps(below: Lighter) -> list[tuple[int, int]]:
    """Only the pairs without a type between them: the others follow.

    >>> steps(np.array([[False, True, True], [False, False, True], [False, False, False]]))
    [(0, 1), (1, 2)]
    """
    counts = below.astype(np.float32)
    return [(int(a), int(b)) for a, b in np.argwhere(below & ~(counts @ counts > 0))]
