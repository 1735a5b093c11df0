"""Tables of contents whose pages are opened when somebody asks for them.

A package that loads everything it names makes every process pay for it: a worker of Spark, `--help`, a test. Compiled
kernels alone cost half a second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def contents(package: str, pages: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package: a name is looked up at its first use, and kept.

    A module whose name is also a name that it gives is no page: once loaded, it would stand in the name's place.

    pages: module of the package -> the names that it gives, with blanks between them

    >>> look_up, listed = contents("thinwire.wire", {"frame": "FrameKind WIRE_VERSION"})
    >>> look_up("FrameKind").__module__, "WIRE_VERSION" in listed()
    ('thinwire.wire.frame', True)
    """
    places = {name: page for page, names in pages.items() for name in names.split()}

    def look_up(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return look_up, listed
