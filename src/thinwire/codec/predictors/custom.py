"""Base class of predictors with their own arithmetic, such as those that an application defines and registers."""

from __future__ import annotations

from typing import ClassVar

from thinwire.codec.predictors.arithmetic import MODES, clamp
from thinwire.codec.predictors.predictor import Predictor
from thinwire.codec.ticks import TICK_LIMIT, UNSET

MAX_CUSTOM = 16 - MODES
"""maximum number of custom predictors of one stream"""

STATE_LIMIT = 1 << 47


class CustomPredictor(Predictor):
    """A predictor whose arithmetic is Python code. It runs in the scalar codec only.

    The state of a property is its last two values and two integers, `a` and `b`, which start at 0. Subclasses define
    `next_value`, and `next_state` if they use `a` and `b`. Both must return the same integers on every machine, because
    the publisher and all decoders run them: integer arithmetic only, no floats, no randomness, no other state.

    >>> class Damped(CustomPredictor):
    ...     name = "damped"
    ...     @staticmethod
    ...     def next_value(x1, x2, a, b):
    ...         return x1 + (x1 - x2) // 2
    >>> p = Damped()
    >>> p.observe(10); p.observe(14); p.predict()
    16
    """

    mode: ClassVar[int] = MODES

    @staticmethod
    def next_value(x1: int, x2: int, a: int, b: int) -> int:
        """Return the prediction after `x1`, the last value, and `x2`, the one before it."""
        raise NotImplementedError

    @staticmethod
    def next_state(x: int, x1: int, x2: int, a: int, b: int) -> tuple[int, int]:
        """Return `a` and `b` after the value `x`, which followed `x1`."""
        return a, b

    @classmethod
    def step(cls, x1: int, x2: int, a: int, b: int) -> int:
        """Return the prediction, limited to valid ticks."""
        return clamp(cls.next_value(x1, x2, a, 0 if b == UNSET else b), TICK_LIMIT)

    @classmethod
    def update(cls, x: int, x1: int, x2: int, a: int, b: int) -> tuple[int, int]:
        """Return the next state, limited to the range that snapshots store."""
        a, b = cls.next_state(x, x1, x2, a, 0 if b == UNSET else b)
        return clamp(a, STATE_LIMIT), clamp(b, STATE_LIMIT)
