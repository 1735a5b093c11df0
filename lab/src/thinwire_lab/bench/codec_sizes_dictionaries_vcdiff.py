"""VCDIFF (RFC 3284) to the message before, by xdelta3: a baseline where its package `pyxdelta` is installed.

The package works on files only, so a few messages must do; the names of the files that it writes into its header are
not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

MESSAGES = 20
_INDICATOR = 4
"""where a patch says what its header has; the length of the names comes next, seven bits a byte"""
_NAMES_FOLLOW = 4


def vcdiff_bytes(messages: Sequence[bytes]) -> dict[str, float]:
    """Bytes a message, under the name of the codec; nothing where the package is missing."""
    if find_spec("pyxdelta") is None:
        return {}
    few = messages[: MESSAGES + 1]
    with TemporaryDirectory() as folder:
        sizes = [_difference(Path(folder), *pair) for pair in pairwise(few)]
    return {f"VCDIFF previous message ({len(sizes)} messages)": sum(sizes) / len(sizes)}


def _difference(folder: Path, before: bytes, after: bytes) -> int:
    source, target, patch, back = (folder / name for name in ("s", "t", "p", "b"))
    source.write_bytes(before)
    target.write_bytes(after)
    package = import_module("pyxdelta")
    package.run(str(source), str(target), str(patch))
    package.decode(str(source), str(patch), str(back))
    if back.read_bytes() != after:
        raise AssertionError("xdelta3 does not give back what it was given")
    return without_names(patch.read_bytes())


def without_names(patch: bytes) -> int:
    """The length of a patch without the names of files in its header.

    >>> without_names(bytes.fromhex("d6c3c400") + b"\\x04" + b"\\x03s/t" + b"window")
    11
    """
    if not patch[_INDICATOR] & _NAMES_FOLLOW:
        return len(patch)
    length = at = 0
    while True:
        at += 1
        length = length << 7 | patch[_INDICATOR + at] & 0x7F
        if patch[_INDICATOR + at] < 0x80:
            return len(patch) - at - length
