"""What the interval index is measured against: every threshold looked at for every value, as fast as that goes.

No branch in the inner loop, so the compiler makes vector instructions of it. `scan_pairs` gives the same answer as the
index; `scan_counts` leaves out the answer and only counts, which nobody could use: it shows what looking alone costs.
"""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.jit import compiled, part


@part
def _look(x: int, thresholds: Any, centres: Any, flags: Any) -> int:
    """Marks and moves what fires, and says how many that are."""
    count = 0
    for i in range(len(thresholds)):
        away = x - centres[i]
        fires = (away > thresholds[i]) | (-away > thresholds[i])
        centres[i] = x if fires else centres[i]
        flags[i] = fires
        count += fires
    return count


@compiled
def scan_pairs(values: Any, thresholds: Any, centres: Any, flags: Any, words: Any, places: Any, fired: Any) -> int:
    """Writes places and thresholds that fire there, one room of pairs over and over; says how many there were.

    words: the flags again, eight of them a number, so that thresholds of which none fires are passed over together
    """
    total = 0
    for at in range(len(values)):
        count = _look(values[at], thresholds, centres, flags)
        total += count
        if count:
            n = 0
            for word in range(len(words)):
                if words[word]:
                    for i in range(8 * word, min(8 * word + 8, len(thresholds))):
                        places[n] = at
                        fired[n] = thresholds[i]
                        n += flags[i]
    return total


@compiled
def scan_counts(values: Any, thresholds: Any, centres: Any) -> int:
    """How many fired."""
    total = 0
    for at in range(len(values)):
        x = values[at]
        for i in range(len(thresholds)):
            away = x - centres[i]
            fires = (away > thresholds[i]) | (-away > thresholds[i])
            centres[i] = x if fires else centres[i]
            total += fires
    return total
