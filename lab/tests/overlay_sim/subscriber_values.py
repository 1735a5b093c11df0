"""Reference for the guarantee of a filter: the values that a subscriber has, event by event."""

import numpy as np


def within(values, places, threshold):
    """Return whether a subscriber that gets the values at these places is within the threshold at every event."""
    if not len(values):
        return True
    if not len(places) or places[0] != 0:
        return False
    latest = np.searchsorted(places, np.arange(len(values)), side="right") - 1
    return bool((np.abs(values - values[places[latest]]) <= threshold).all())
