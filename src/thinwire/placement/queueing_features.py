"""Features of a latency model from queueing theory, and the check of many sets of topics against their limits.

A worker is slowed down when more workers are busy than there are cores. How often that happens depends on how busy the
others are, which depends on their slowdown; the fixed point is found by iterating from below. Therefore every feature
grows when a topic is added or a rate grows. The waiting time is that of one queue observed for a limited time: the
stationary formula below saturation, a random walk at it, a growing backlog above it, in one expression.

`keeps` uses the arithmetic of `MonotoneModel.logs` for a network with one hidden layer, without allocating arrays; a
search calls it millions of times. It rejects a set at the first topic above its limit.

>>> alone = coordinates(np.array([[20.0]]), np.array([[0.0273]]), np.array([1]), cores=4, contention=0.03)
>>> dict(zip(NAMES, alone[0, 0].round(3).tolist(), strict=True))
{'seconds': -3.601, 'busy': 0.546, 'waiting': -2.719, 'stretch': 0.0, 'others': 0.0, 'hot others': 0.0}
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from thinwire.placement.hosts import Vector

NAMES = ("seconds", "busy", "waiting", "stretch", "others", "hot others")
"""log of the stretched seconds of a message; busy share of its worker; log of the expected p90; log of the stretch;
busy workers of other topics per core; and the same, counting mainly very busy ones"""
WATCHED = 115.0
"""seconds over which a p90 is measured"""
ROUNDS = 4


@njit(cache=True)
def coordinates(
    rates: Vector, seconds: Vector, sizes: NDArray[np.int64], cores: int, contention: float
) -> NDArray[np.float64]:
    """Return the features of every topic of every set: sets by topics by features."""
    out = np.zeros((rates.shape[0], rates.shape[1], 6))
    for row in range(rates.shape[0]):
        locate(rates[row], seconds[row], sizes[row], cores, contention, out[row])
    return out


@njit(cache=True)
def locate(rates: Vector, seconds: Vector, size: int, cores: int, contention: float, out: Vector) -> None:
    """Write the features of the topics of one set to `out`."""
    stretch = np.ones(size)
    busy = np.zeros(size)
    chance = np.zeros(size + 1)
    for _ in range(ROUNDS):
        for j in range(size):
            busy[j] = min(1.0, rates[j] * seconds[j] * stretch[j])
        _fill_busy_probabilities(busy, size, chance)
        for j in range(size):
            stretch[j] = _stretch(chance, busy[j], size, cores, contention)
    for j in range(size):
        others, hot = 0.0, 0.0
        for i in range(size):
            if i != j:
                others += busy[i]
                hot += busy[i] ** 4
        taken = seconds[j] * stretch[j]
        share = rates[j] * taken
        out[j, 0] = np.log(taken)
        out[j, 1] = min(share, 2.0)
        out[j, 2] = np.log(taken + _waiting(share, taken))
        out[j, 3] = np.log(stretch[j])
        out[j, 4] = others / cores
        out[j, 5] = hot / cores


@njit()
def _fill_busy_probabilities(busy: Vector, size: int, chance: Vector) -> None:
    """Compute the probability of each number of busy workers."""
    chance[:] = 0.0
    chance[0] = 1.0
    for i in range(size):
        for n in range(i + 1, 0, -1):
            chance[n] = chance[n] * (1.0 - busy[i]) + chance[n - 1] * busy[i]
        chance[0] *= 1.0 - busy[i]


@njit()
def _stretch(chance: Vector, own: float, size: int, cores: int, contention: float) -> float:
    """Return the expected slowdown of a message over the number of other busy workers.

    The worker itself is removed from the distribution, starting at the end at which rounding errors do not grow.
    """
    total, others = 0.0, 0.0
    if own < 0.5:
        for n in range(size):
            others = (chance[n] - own * others) / (1.0 - own)
            total += others * _slowed(n + 1, cores, contention)
    else:
        for n in range(size - 1, -1, -1):
            others = (chance[n + 1] - (1.0 - own) * others) / own
            total += others * _slowed(n + 1, cores, contention)
    return total


@njit()
def _slowed(active: int, cores: int, contention: float) -> float:
    """Return the slowdown of a message with `active` busy workers, its own included."""
    return max(1.0, active / cores) * (1.0 + contention * (min(active, cores) - 1))


@njit()
def _waiting(share: float, taken: float) -> float:
    """Return the p90 of the waiting time of a worker that is busy for a `share` of a limited time."""
    drift = (share - 1.0) * 0.9 * WATCHED
    noise = 1.1513 * share * taken * 1.0225 * 0.9 * WATCHED
    return 0.5 * (drift + np.sqrt(drift * drift + 4.0 * noise))


@njit(cache=True)
def keeps(
    rates: Vector,
    seconds: Vector,
    limits: Vector,
    cores: int,
    contention: float,
    inputs: Vector,
    hidden: Vector,
    last: Vector,
    outputs: Vector,
) -> NDArray[np.bool_]:
    """Return for every set whether the logarithm of every p90 is within its limit.

    inputs: shift and scale of the features
    hidden, last: weights of the two layers, the constants at the end
    outputs: level and height of the output, and the overhead in seconds
    """
    out = np.zeros((rates.shape[1], 6))
    found = np.ones(rates.shape[0], np.bool_)
    for row in range(rates.shape[0]):
        locate(rates[row], seconds[row], rates.shape[1], cores, contention, out)
        for topic in range(rates.shape[1]):
            predicted = outputs[0] + outputs[1] * _evaluate_network(out[topic], inputs, hidden, last)
            if outputs[2] > 0:
                predicted = math.log(math.exp(predicted) + outputs[2])
            if predicted > limits[row, topic]:
                found[row] = False
                break
    return found


@njit()
def _evaluate_network(at: Vector, inputs: Vector, hidden: Vector, last: Vector) -> float:
    """Return the output of the network for the features of one topic, which are normalised in place."""
    count, units = hidden.shape[0] - 1, hidden.shape[1]
    total = float(last[units + count])
    for i in range(count):
        at[i] = (at[i] - inputs[0, i]) / inputs[1, i]
        total += at[i] * last[units + i]
    for unit in range(units):
        value = hidden[count, unit]
        for i in range(count):
            value += at[i] * hidden[i, unit]
        total += math.tanh(value) * last[unit]
    return total
