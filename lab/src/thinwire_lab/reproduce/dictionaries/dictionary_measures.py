"""How alike the messages of a stream are: NSim.

Equation 5.4.3 of the thesis: the share of two messages that common substrings longer than three bytes cover, for
each of 100 messages against the 100 that follow it. A high mean promises much of a dictionary; a high deviation says
that the stream changes and the dictionary needs looking after.

A byte lies in a common substring longer than three exactly where one of the four-byte windows over it occurs in the
other message, so windows are all that has to be compared.

>>> round(similarity(b'{"room": "11.1"}', b'{"room": "11.2"}'), 3)
0.812
>>> nsim([b"abcdefgh"] * 10, tests=3, beside=5)
(100.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WINDOW = 4
TESTS = BESIDE = 100

Windows = NDArray[np.uint32]


def similarity(one: bytes, other: bytes) -> float:
    """The share of both messages, 0 to 1, that lies in substrings they have in common."""
    return _covered(_windows(one), _windows(other), len(one), len(other))


def nsim(messages: Sequence[bytes], tests: int = TESTS, beside: int = BESIDE) -> tuple[float, float]:
    """Mean and standard deviation in per cent, tests spread evenly over the messages."""
    last = max(len(messages) - beside - 1, 0)
    places = sorted({test * last // max(tests - 1, 1) for test in range(tests)})
    shares = [share for place in places for share in _beside(messages[place : place + beside + 1])]
    return (100 * float(np.mean(shares)), 100 * float(np.std(shares))) if shares else (0.0, 0.0)


def _beside(messages: Sequence[bytes]) -> list[float]:
    """The first message against each of the others."""
    (first, size), *others = [(_windows(message), len(message)) for message in messages]
    return [_covered(first, other, size, length) for other, length in others]


def _windows(message: bytes) -> Windows:
    bytes_ = np.frombuffer(message, dtype=np.uint8).astype(np.uint32)
    count = max(len(message) - WINDOW + 1, 0)
    parts = (bytes_[at : at + count] << np.uint32(8 * at) for at in range(WINDOW))
    return np.bitwise_or.reduce(list(parts)) if count else np.zeros(0, np.uint32)


def _covered(one: Windows, other: Windows, size: int, length: int) -> float:
    shared = _bytes_in(one, other) + _bytes_in(other, one)
    return shared / (size + length) if size + length else 1.0


def _bytes_in(windows: Windows, others: Windows) -> int:
    """Bytes that lie in a window which the others have too."""
    found = np.isin(windows, others)
    marked = np.zeros(len(windows) + WINDOW - 1, bool)
    for at in range(WINDOW):
        marked[at : at + len(windows)] |= found
    return int(marked.sum())
