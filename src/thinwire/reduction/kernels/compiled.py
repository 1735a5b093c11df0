"""Compiling: the same functions that run per event in Python run here in machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

from thinwire.formats import scales
from thinwire.reduction import residual
from thinwire.reduction.predictors import steps

F = TypeVar("F", bound=Callable[..., Any])

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
    return cast(F, numba.njit(cache=True, boundscheck=False, nogil=True)(function))


def part(function: F) -> F:
    """A piece of a kernel, woven into whoever calls it."""
    return cast(F, numba.njit(cache=True, inline="never", nogil=True)(function))
