"""Description of the machine of a measurement."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def this_machine() -> str:
    """Return processor, cores, system and Python in one line.

    >>> "Python" in this_machine()
    True
    """
    cores = os.cpu_count()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{_processor()}, {cores} cores, {platform.system()} {platform.machine()}, Python {python}"


def _processor() -> str:
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.exists():
        models = (line.partition(":")[2].strip() for line in cpu_info.read_text().splitlines() if "model name" in line)
        return next(models, "") or "unknown processor"
    return platform.processor() or "unknown processor"
