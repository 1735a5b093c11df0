"""Numba decorators for kernels. Kernels call the same arithmetic functions as the scalar code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

from thinwire.codec.predictors import arithmetic
from thinwire.codec.ticks import decode_residual, encode_residual
from thinwire.wire import stream_state as scales

F = TypeVar("F", bound=Callable[..., Any])

_LEAN: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}

for _shared in (
    arithmetic.clamp,
    arithmetic.damped,
    arithmetic.predict,
    arithmetic.observe_trend,
    encode_residual,
    decode_residual,
    scales.adapt,
):
    register_jitable(_shared)


def compiled(function: F) -> F:
    """Compile an entry point on first use and store the result on disk."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def part(function: F) -> F:
    """Compile a function that kernels call."""
    return cast(F, numba.njit(nogil=True, error_model="numpy")(function))


def no_alloc(function: F) -> F:
    """Compile an entry point that creates no arrays, without reference counting.

    The caller holds references to all arguments. Frames are short; counting references to the slices made for each
    would take longer than reading it. A kernel that creates an array cannot be compiled this way.
    """
    return cast(F, numba.njit(cache=True, **_LEAN)(function))


def no_alloc_part(function: F) -> F:
    """Compile a function that `no_alloc` kernels call."""
    return cast(F, numba.njit(**_LEAN)(function))


def inlined(function: F) -> F:
    """Compile a small function inline, because passing arrays would cost more than the function."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", inline="always")(function))
