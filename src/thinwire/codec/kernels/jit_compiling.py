"""Compiling the inner loops of workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile on first use, and keep the result beside the source for the next process."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
