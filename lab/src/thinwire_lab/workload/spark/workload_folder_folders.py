"""Folders that are either complete or not there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thinwire.errors import ConfigError

UNFINISHED = ".unfinished"


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill under another name; it gets its own when the block ends well, and else nothing is left of it.

    A process that is killed leaves the other name behind, which the next one removes.
    """
    check_new(out)
    unfinished = out.with_name(out.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        unfinished.rename(out)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def check_new(out: Path) -> None:
    """Refuse a folder that is there already, before anything is computed for it."""
    if out.exists():
        raise ConfigError("there is something already: name another folder, or remove it", out=str(out))
