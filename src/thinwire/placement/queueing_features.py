"""Does a set keep every promise? The question a search asks a million times, answered without writing anything down.

The same arithmetic as `Rising.logs` for a network with one hidden layer; a set is given up at the first topic that is
expected too late.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from thinwire.placement.hosts_topics import Vector
from thinwire.placement.queueing_features_sharing import locate


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
    answers: Vector,
) -> NDArray[np.bool_]:
    """For every set, a row each: is the logarithm of every p90 within its limit?

    inputs: shift and scale of the coordinates; hidden, last: weights of the two layers, the constants at their end
    answers: what turns what the network says into a logarithm of seconds: level, height, seconds on the way
    """
    out = np.zeros((rates.shape[1], 6))
    found = np.ones(rates.shape[0], np.bool_)
    for row in range(rates.shape[0]):
        locate(rates[row], seconds[row], rates.shape[1], cores, contention, out)
        for topic in range(rates.shape[1]):
            told = answers[0] + answers[1] * _said(out[topic], inputs, hidden, last)
            if answers[2] > 0:
                told = math.log(math.exp(told) + answers[2])
            if told > limits[row, topic]:
                found[row] = False
                break
    return found


@njit()
def _said(at: Vector, inputs: Vector, hidden: Vector, last: Vector) -> float:
    """What the network says of one topic."""
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
