"""Packages as a zip file for Spark executors.

A reader that is planned on the driver runs on the executors, so both need the same version of thinwire. `session` ships
the zip file whenever executors may run on other machines. Dependencies (`pip install 'thinwire[nats,spark]'`) must be
installed there already. By hand: `spark-submit --py-files "$(python -m thinwire.spark.executor_package)" job.py`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

PACKAGE = "thinwire"
EXTENSION_GROUPS = ("thinwire.verbs", "thinwire.roles")
"""entry point groups of distributions that extend thinwire; tasks may run their functions"""


def shipped_packages() -> list[str]:
    """Return `thinwire` and the top-level packages that extend it through entry points."""
    extensions = {entry.module.partition(".")[0] for group in EXTENSION_GROUPS for entry in entry_points(group=group)}
    return [PACKAGE, *sorted(extensions - {PACKAGE})]


def package(folder: str | os.PathLike[str] | None = None) -> Path:
    """Package `shipped_packages` as a zip file and return its path. Equal contents give the same file name.

    folder: target folder; by default a temporary one that is removed when the process exits
    """
    contents = dict(sorted(entry for name in shipped_packages() for entry in _contents(files(name), name)))
    digest = sha256(b"".join(name.encode() + b"\0" + sha256(data).digest() for name, data in contents.items()))
    path = (Path(folder) if folder is not None else _temporary_folder()) / f"{PACKAGE}-{digest.hexdigest()[:16]}.zip"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with ZipFile(unfinished, "w", ZIP_DEFLATED) as out:
            for name, data in contents.items():
                out.writestr(ZipInfo(name), data, ZIP_DEFLATED)  # ZipInfo has a fixed time: equal contents, equal bytes
        unfinished.replace(path)  # atomic: a concurrent process never ships half a file
    return path


def _contents(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_file():
            yield f"{name}/{entry.name}", entry.read_bytes()
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _contents(entry, f"{name}/{entry.name}")


@cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="thinwire-shipping-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


if __name__ == "__main__":
    print(package(sys.argv[1] if len(sys.argv) > 1 else "."))
