"""Numba cache for packages shipped as a zip file: kernels are compiled once per machine, not per application.

Spark stores shipped files in a new folder for every application, and Numba caches compiled kernels by the path of their
source. The cache here uses the name of the zip file, which contains a hash of its content.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

LOCATORS = ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator", "IPythonCacheLocator")
"""Numba's own locators, for kernels in files that are not zipped"""
_config: Any = numba.config


class ZipNameLocator(caching.ZipCacheLocator):
    """Locates cached kernels of a zipped module by the name of the zip file."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        root = Path(_config.CACHE_DIR or Path(self._cache_path).parent)
        self._cache_path = str(root / Path(self._zip_path).stem / Path(self._internal_path).parent)


def cache_by_zip_name() -> None:
    """Use `ZipNameLocator` in this process."""
    if not _config.CACHE_LOCATOR_CLASSES:
        _config.CACHE_LOCATOR_CLASSES = ",".join((*LOCATORS, f"{__name__}.{ZipNameLocator.__name__}"))
