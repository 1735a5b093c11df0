"""Packages that import their modules on first use of a name.

Importing every module of a package would slow down each process, such as a Spark worker or `--help`: compiled kernels
alone take half a second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def contents(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports names on first use.

    A module must not have the name of one of its exports: once imported, the module would replace the export.

    modules: module of the package -> its exported names, separated by spaces

    >>> look_up, listed = contents("thinwire.wire", {"frame": "FrameKind WIRE_VERSION"})
    >>> look_up("FrameKind").__module__, "WIRE_VERSION" in listed()
    ('thinwire.wire.frame', True)
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def look_up(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return look_up, listed


def load_extensions(group: str) -> None:
    """Import the modules of an entry point group of installed distributions, so that they register themselves."""
    from importlib.metadata import entry_points  # takes 20 ms, and most processes need no extension

    for extension in entry_points(group=group):
        extension.load()
