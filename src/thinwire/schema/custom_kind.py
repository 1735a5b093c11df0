"""Property kinds that an application defines: values of its own over a kind that the codec encodes.

>>> class Celsius(CustomKind):
...     name = "celsius-text"
...     base = Kind.NUMBER
...     step = "0.1"
...     @staticmethod
...     def to_base(value):
...         return float(value.removesuffix(" C"))
...     @staticmethod
...     def from_base(value):
...         return f"{value} C"
>>> Celsius.to_base("20.5 C"), Celsius.from_base(20.5)
(20.5, '20.5 C')
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from thinwire.errors import ConfigError
from thinwire.lazy import load_extensions
from thinwire.schema.kind import Kind

EXTENSIONS = "thinwire.kinds"
"""entry point group of distributions whose modules register kinds"""
NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_REGISTERED: dict[str, type[CustomKind]] = {}


class CustomKind:
    """A property kind whose values are converted where an application publishes and subscribes.

    Everything between works with values of `base`: tolerances and bounds, predicates, watches, stored events, tables.
    A process that has not registered the kind publishes and receives values of `base`.

    name: kind of the property in schemas
    base: the built-in kind that is encoded
    step: step of a property that states none
    """

    name: ClassVar[str]
    base: ClassVar[Kind]
    step: ClassVar[str | None] = None

    @staticmethod
    def to_base(value: Any) -> Any:
        """Return the base value of a published value. Raises ValueError or TypeError for a value of another kind."""
        raise NotImplementedError

    @staticmethod
    def from_base(value: Any) -> Any:
        """Return the value that a subscriber receives."""
        raise NotImplementedError


def register_kind(kind: type[CustomKind]) -> type[CustomKind]:
    """Make a kind available by its name; may be a decorator. Raises ConfigError for a name that is taken or invalid."""
    name = kind.name
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigError("a kind name has up to 64 lower-case letters, digits and '_.-'", kind=name)
    built_in = [kind.value for kind in Kind]
    if name in built_in or _REGISTERED.get(name, kind) is not kind:
        raise ConfigError("a kind with this name exists", kind=name, known=kind_names())
    if kind.base not in built_in:
        raise ConfigError("the base of a kind is a built-in kind", kind=name, base=kind.base, choose_from=built_in)
    _REGISTERED[name] = kind
    return kind


def find_custom_kind(name: object) -> type[CustomKind] | None:
    """Return a registered kind; None for any other value."""
    if not isinstance(name, str):
        return None
    if name not in _REGISTERED:
        load_extensions(EXTENSIONS)
    return _REGISTERED.get(name)


def kind_names() -> list[str]:
    """Return the names of all kinds that a property may have."""
    return [*(kind.value for kind in Kind), *sorted(_REGISTERED)]
