"""Java, which Spark runs on and nothing else of thinwire needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

JAVA = 17
"""the oldest version that does"""
PATIENCE = 60.0
_WAYS = {
    "apt-get": "sudo apt-get install default-jre-headless",
    "dnf": "sudo dnf install java-latest-openjdk-headless",
    "brew": "brew install openjdk@17",
}


def java_version() -> int:
    """The version of the Java that Spark would start, 0 where there is none."""
    home = os.environ.get("JAVA_HOME")
    try:
        done = subprocess.run(
            [f"{home}/bin/java" if home else "java", "-version"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return version_told(done.stdout + done.stderr)


def version_told(said: str) -> int:
    """The version that a Java tells of itself.

    >>> version_told('openjdk version "17.0.9" 2023-10-17'), version_told("java: not found")
    (17, 0)
    """
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def how_to_install() -> str:
    """The command that brings Java to this machine, in words where there is no such command."""
    found = (way for program, way in _WAYS.items() if shutil.which(program))
    return next(found, f"install a JRE {JAVA} or newer of your choice and set JAVA_HOME")
