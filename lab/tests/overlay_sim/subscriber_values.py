"""Reference for the guarantee of a filter: the values that a subscriber has, event by event."""

import numpy as np


def within(values, indexes, threshold):
    """Return whether a subscriber that receives the values at these indexes is within the threshold at every event."""
    if not len(values):
        return True
    if not len(indexes) or indexes[0] != 0:
        return False
    latest = np.searchsorted(indexes, np.arange(len(values)), side="right") - 1
    return bool((np.abs(values - values[indexes[latest]]) <= threshold).all())
