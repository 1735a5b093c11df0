"""The package for machines that do not have it: a zip that Spark takes along to its executors.

A reader that is planned here runs there, so both sides must have the same thinwire; what it needs beside itself
(`pip install 'thinwire[nats,spark]'` brings it) must be on those machines already. `session` ships by itself wherever
executors may be other machines. By hand: `spark-submit --py-files "$(python -m thinwire.spark.executor_package)"
job.py`.
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
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

PACKAGE = "thinwire"


def package(folder: str | os.PathLike[str] | None = None) -> Path:
    """A zip of the package as it is installed here, named after its content: equal packages make equal files.

    folder: where to write it; a place of this process by default, which goes when it ends
    """
    contents = dict(sorted(_contents(files(PACKAGE), PACKAGE)))
    digest = sha256(b"".join(name.encode() + b"\0" + sha256(data).digest() for name, data in contents.items()))
    path = (Path(folder) if folder is not None else _own_folder()) / f"{PACKAGE}-{digest.hexdigest()[:16]}.zip"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        _write(unfinished, contents)
        unfinished.replace(path)  # whoever sees it sees all of it
    return path


def _contents(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_file():
            yield f"{name}/{entry.name}", entry.read_bytes()
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _contents(entry, f"{name}/{entry.name}")


def _write(path: Path, contents: dict[str, bytes]) -> None:
    with ZipFile(path, "w", ZIP_DEFLATED) as out:
        for name, data in contents.items():
            out.writestr(ZipInfo(name), data, ZIP_DEFLATED)  # no times in it: equal content, equal bytes


@cache
def _own_folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="thinwire-shipping-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


if __name__ == "__main__":
    print(package(sys.argv[1] if len(sys.argv) > 1 else "."))
