"""The machine a figure was measured on, in one line."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def this_machine() -> str:
    """Processor, cores, system and Python.

    >>> "Python" in this_machine()
    True
    """
    cores = os.cpu_count()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{_processor()}, {cores} cores, {platform.system()} {platform.machine()}, Python {python}"


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        models = (line.partition(":")[2].strip() for line in listing.read_text().splitlines() if "model name" in line)
        return next(models, "") or "unnamed processor"
    return platform.processor() or "unnamed processor"
