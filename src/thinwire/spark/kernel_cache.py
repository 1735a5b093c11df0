"""Kernels of a package that was shipped as a zip: compiled once on a machine, not once in every application.

Spark unpacks what is shipped into a new folder for every application, and Numba keeps compiled kernels by the path of
their source. By the name of the zip, which tells its content, they are found again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

LOCATORS = ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator", "IPythonCacheLocator")
"""those of Numba that come first, for kernels of others that are plain files"""


_config: Any = numba.config


class ByContent(caching.ZipCacheLocator):
    """Says where the kernels of a zipped module are kept."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        kept = Path(_config.CACHE_DIR or Path(self._cache_path).parent)
        self._cache_path = str(kept / Path(self._zip_path).stem / Path(self._internal_path).parent)


def keep_by_content() -> None:
    """Let Numba keep kernels of zipped modules by the name of their zip, in this process."""
    if not _config.CACHE_LOCATOR_CLASSES:
        _config.CACHE_LOCATOR_CLASSES = ",".join((*LOCATORS, f"{__name__}.{ByContent.__name__}"))
