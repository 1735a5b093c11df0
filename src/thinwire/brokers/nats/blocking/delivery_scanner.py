"""Deliveries of a pull consumer, found in a buffer of received bytes by machine code.

    MSG <subject> <sid> $JS.ACK.<stream>.<consumer>.<delivered>.<offset>.<number>.<time>.<pending> <size>
    HMSG ... <size of the headers> <size>

Everything that is not such a delivery is left to Python: it is rare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

MORE, FULL, ODD = 0, 1, 2
"""why it stopped: the rest is incomplete, the columns are full, here is something else"""

OFFSET, NUMBER, TIME, PENDING, BEGIN, END, NAME, COLUMNS = 0, 1, 2, 3, 4, 5, 6, 7
"""the rows of the table of deliveries; BEGIN and END of the payload, NAME an index into the subjects"""

_SPACE, _DOT, _RETURN, _M, _H, _ZERO = 32, 46, 13, 77, 72, 48
_ACK = np.frombuffer(b"$JS.ACK.", np.uint8)
_WORDS, _LONG_WORDS = 9, 11
_AT, _LONG_AT = 5, 7
_MOST_DIGITS = 18


@njit(nogil=True)
def _number(data: Any, begin: int, end: int) -> int:
    """Digits as a number; -1 where they are none."""
    if begin >= end or end - begin > _MOST_DIGITS + 1:
        return -1
    value = 0
    for at in range(begin, end):
        digit = data[at] - _ZERO
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@njit(nogil=True)
def _split_line(data: Any, at: int, end: int, places: Any) -> tuple[int, int]:
    """Where the words of a line begin (the place after the last too), how many, and the line's end; -1 if incomplete.

    A line has at most as many words as there are places; words past them are not counted."""
    count = 0
    places[0] = at
    while at < end:
        letter = data[at]
        if letter == _SPACE:
            count += 1
            if count >= places.size - 1:
                return 0, at
            places[count] = at + 1
        elif letter == _RETURN:
            places[count + 1] = at + 1
            return count + 1, at
        at += 1
    return -1, at


@njit(nogil=True)
def _take_reply(data: Any, begin: int, end: int, dots: Any, table: Any, row: int) -> bool:
    """Offset, number, time and pending out of the subject of the acknowledgement; False where it is none."""
    if end - begin < _ACK.size:
        return False
    for k in range(_ACK.size):
        if data[begin + k] != _ACK[k]:
            return False
    count = 1
    dots[0] = begin
    for at in range(begin, end):
        if data[at] == _DOT:
            if count >= dots.size - 1:
                return False
            dots[count] = at + 1
            count += 1
    dots[count] = end + 1
    if count != _WORDS and count < _LONG_WORDS:
        return False
    first = _AT if count == _WORDS else _LONG_AT
    for k in range(4):
        value = _number(data, dots[first + k], dots[first + k + 1] - 1)
        if value < 0:
            return False
        table[k, row] = value
    return True


@njit(nogil=True)
def _name(data: Any, begin: int, end: int, slots: Any, names: Any, known: int) -> int:
    """The index of a subject among those seen; `known` where it is a new one, which is entered."""
    mixed = np.uint64(1469598103934665603)
    for at in range(begin, end):
        mixed = (mixed ^ np.uint64(data[at])) * np.uint64(1099511628211)
    mask = slots.size - 1
    slot = np.int64(mixed ^ (mixed >> np.uint64(29))) & mask
    while slots[slot] >= 0:
        index = slots[slot]
        if names[index, 1] - names[index, 0] == end - begin:
            same = True
            for k in range(end - begin):
                if data[names[index, 0] + k] != data[begin + k]:
                    same = False
                    break
            if same:
                return int(index)
        slot = (slot + 1) & mask
    slots[slot] = known
    names[known, 0], names[known, 1] = begin, end
    return known


@njit(cache=True, nogil=True)
def scan(data: Any, at: int, end: int, sid: int, table: Any, names: Any, slots: Any) -> tuple[int, int, int, int]:
    """Fill the table; how many deliveries, where the rest begins, why it stopped there, and how many subjects."""
    count = known = 0
    places, dots = np.empty(8, np.int64), np.empty(16, np.int64)
    slots[:] = -1
    while count < table.shape[1]:
        if at >= end:
            return count, at, MORE, known
        headed = data[at] == _H
        if not headed and data[at] != _M:
            return count, at, ODD, known
        words, stop = _split_line(data, at, end, places)
        if words < 0:
            return count, at, MORE, known
        if words != (6 if headed else 5) or _number(data, places[2], places[3] - 1) != sid:
            return count, at, ODD, known
        size = _number(data, places[words - 1], stop)
        before = _number(data, places[4], places[5] - 1) if headed else 0
        if before < 0 or size < before or not _take_reply(data, places[3], places[4] - 1, dots, table, count):
            return count, at, ODD, known
        after = stop + 2 + size
        if after + 2 > end:
            return count, at, MORE, known
        index = _name(data, places[1], places[2] - 1, slots, names, known)
        known = max(known, index + 1)
        table[BEGIN, count], table[END, count], table[NAME, count] = stop + 2 + before, after, index
        count += 1
        at = after + 2
    return count, at, FULL, known
