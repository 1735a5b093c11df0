"""The numbers every kernel agrees on."""

from __future__ import annotations

TICK_LIMIT = 1 << 61
"""a tick is at most this large: sums of three stay inside 64 bits"""

ABSENT = -(1 << 63)
"""in a state column: the property has no value"""

OFF_GRID = (1 << 63) - 1
"""in place of a tick: the value is no multiple of its step and travels as it is"""

UNSET = ABSENT
"""in a trend column: no second value has been seen yet"""
