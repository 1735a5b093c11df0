"""Random numbers that depend only on a seed, a purpose and a row number; weighted choice; proportional distribution.

Rows can be drawn in any order and in any number of partitions with the same result.

>>> import numpy as np
>>> numbers = uniforms(7, "example", np.arange(6))
>>> parts = [uniforms(7, "example", np.arange(start, start + 2)) for start in (0, 2, 4)]
>>> bool((numbers == np.concatenate(parts)).all())
True
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def uniforms(seed: int, purpose: str, rows: Ints, dimension: int = 0) -> Floats:
    """Return a number in [0, 1) for each row.

    purpose: use of the numbers; different purposes give independent numbers
    dimension: index among several numbers for the same purpose
    """
    bits = _mixed(rows.astype(np.uint64) * _STEP + _key(seed, purpose, dimension))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normals(seed: int, purpose: str, rows: Ints, dimensions: int) -> Floats:
    """Return independent standard normal numbers, one column per dimension (Box and Muller, 1958)."""
    numbers = np.empty((rows.size, dimensions + dimensions % 2))
    for dimension in range(0, dimensions, 2):
        radius = np.sqrt(-2.0 * np.log1p(-uniforms(seed, purpose, rows, dimension)))
        angle = (2.0 * np.pi) * uniforms(seed, purpose, rows, dimension + 1)
        numbers[:, dimension] = radius * np.cos(angle)
        numbers[:, dimension + 1] = radius * np.sin(angle)
    return numbers[:, :dimensions]


def choose_weighted(weights: NDArray[Any], numbers: Floats) -> Ints:
    """Return the index of the weight that each number of [0, 1) selects, in proportion to the weights.

    >>> choose_weighted(np.array([1.0, 0.0, 3.0]), np.array([0.0, 0.24, 0.25, 0.99])).tolist()
    [0, 0, 2, 2]
    """
    ends = np.cumsum(weights, dtype=np.float64)
    return find_interval(ends, numbers * ends[-1])


def find_interval(ends: Floats, positions: Floats) -> Ints:
    """Return the index of the interval that contains each position. An empty interval contains none."""
    last = int(np.searchsorted(ends, ends[-1], side="left"))  # guards against rounding
    return np.minimum(np.searchsorted(ends, positions, side="right"), last).astype(np.int64)


def _key(seed: int, purpose: str, dimension: int) -> np.uint64:
    digest = blake2b(f"{seed}/{purpose}/{dimension}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) in place."""
    for shift, mixer in zip((30, 27), _MIXERS, strict=True):
        bits ^= bits >> np.uint64(shift)
        bits *= mixer
    bits ^= bits >> np.uint64(31)
    return bits


def quotas(weights: Floats, total: int) -> Ints:
    """Distribute `total` in proportion to the weights by largest remainders. Ties go to the lower index.

    >>> quotas(np.array([6.0, 3.0, 1.0]), 5).tolist()
    [3, 2, 0]
    """
    if total == 0 or weights.sum() <= 0:
        return np.zeros(weights.size, dtype=np.int64)
    if weights.sum() < total / np.finfo(np.float64).max:  # the quotient below would overflow
        weights = weights / weights.max()
    exact = weights * (total / weights.sum())
    counts = np.floor(exact).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    return np.asarray(counts)
