"""Compiling: the same functions that run per event in Python run here in machine code.

Compiling the inner loops of workloads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

from thinwire.codec import ticks as residual
from thinwire.codec.predictors import predictor as steps
from thinwire.wire import stream_state as scales

F = TypeVar("F", bound=Callable[..., Any])

_LEAN: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}

for _truth in (
    steps.clamp,
    steps.damped,
    steps.predict,
    steps.observe_trend,
    residual.encode,
    residual.decode,
    scales.adapt,
):
    register_jitable(_truth)


def compiled(function: F) -> F:
    """Compile on first use, and keep the result beside the source for the next process."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def part(function: F) -> F:
    """A piece of a kernel."""
    return cast(F, numba.njit(nogil=True, error_model="numpy")(function))


def lean(function: F) -> F:
    """The same as `compiled` for a kernel that makes no arrays: nobody counts who holds those it is given.

    Its caller does, as long as it runs. Frames are short, and counting the slices made for each takes longer than
    reading it. A kernel that does make an array cannot be compiled this way.
    """
    return cast(F, numba.njit(cache=True, **_LEAN)(function))


def lean_part(function: F) -> F:
    """A piece of such a kernel."""
    return cast(F, numba.njit(**_LEAN)(function))


def woven(function: F) -> F:
    """A small piece, woven into whoever calls it: passing arrays on would cost more than the piece does."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", inline="always")(function))
