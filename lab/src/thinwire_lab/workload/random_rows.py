"""Whole numbers in proportion to weights.

Chance that depends on nothing but a seed, a purpose and the number of a row.

Rows can be drawn in any order and in any number of partitions: row 17 is always the same row 17.

>>> import numpy as np
>>> whole = uniforms(7, "places", np.arange(6))
>>> parts = [uniforms(7, "places", np.arange(at, at + 2)) for at in (0, 2, 4)]
>>> bool((whole == np.concatenate(parts)).all())
True
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def uniforms(seed: int, purpose: str, rows: Rows, lane: int = 0) -> Floats:
    """A number in [0, 1) for every row.

    purpose: what it is drawn for; two purposes never share numbers
    lane: which of several numbers for the same purpose
    """
    bits = _mixed(rows.astype(np.uint64) * _STEP + _key(seed, purpose, lane))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normals(seed: int, purpose: str, rows: Rows, lanes: int) -> Floats:
    """So many independent standard normal numbers for every row, a column each (Box and Muller, 1958)."""
    found = np.empty((rows.size, lanes + lanes % 2))
    for lane in range(0, lanes, 2):
        radius = np.sqrt(-2.0 * np.log1p(-uniforms(seed, purpose, rows, lane)))
        angle = (2.0 * np.pi) * uniforms(seed, purpose, rows, lane + 1)
        found[:, lane] = radius * np.cos(angle)
        found[:, lane + 1] = radius * np.sin(angle)
    return found[:, :lanes]


def chosen(weights: NDArray[Any], at: Floats) -> Rows:
    """The place in `weights` that each number of [0, 1) falls on, as often as its weight says.

    >>> chosen(np.array([1.0, 0.0, 3.0]), np.array([0.0, 0.24, 0.25, 0.99])).tolist()
    [0, 0, 2, 2]
    """
    ends = np.cumsum(weights, dtype=np.float64)
    return fallen(ends, at * ends[-1])


def fallen(ends: Floats, at: Floats) -> Rows:
    """The stretch that each position falls into, given where stretches end; an empty stretch takes nothing."""
    last = int(np.searchsorted(ends, ends[-1], side="left"))  # rounding must not reach past the last one with a weight
    return np.minimum(np.searchsorted(ends, at, side="right"), last).astype(np.int64)


def _key(seed: int, purpose: str, lane: int) -> np.uint64:
    digest = blake2b(f"{seed}/{purpose}/{lane}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele, Lea and Flood, 2014), in place."""
    for shift, mixer in zip((30, 27), _MIXERS, strict=True):
        bits ^= bits >> np.uint64(shift)
        bits *= mixer
    bits ^= bits >> np.uint64(31)
    return bits


def quotas(weights: Floats, total: int) -> Rows:
    """Distribute `total` in proportion to the weights, by largest remainders; among equal remainders the first wins.

    >>> quotas(np.array([6.0, 3.0, 1.0]), 5).tolist()
    [3, 2, 0]
    """
    if total == 0 or weights.sum() <= 0:
        return np.zeros(weights.size, dtype=np.int64)
    if weights.sum() < total / np.finfo(np.float64).max:  # the quotient below would overflow
        weights = weights / weights.max()
    due = weights * (total / weights.sum())
    whole = np.floor(due).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - due, kind="stable")[:missing]] += 1
    return np.asarray(whole)
