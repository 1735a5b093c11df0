"""Hints: what an annotation says about a property beyond its Python type, inside `typing.Annotated`.

>>> Number(step="0.1", maximum=50).fields()
{'step': '0.1', 'maximum': 50}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from fractions import Fraction
from typing import Any, ClassVar

from thinwire.schema.property import Kind, Role


class Hint:
    """One thing that is known about a property; `fields` are those of `Property`."""

    def fields(self) -> dict[str, Any]:
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Header(Hint):
    """About the event itself, such as its timestamp."""

    def fields(self) -> dict[str, Any]:
        return {"role": Role.HEADER}


@dataclass(frozen=True)
class Dimension(Hint):
    """Identifies the asset."""

    def fields(self) -> dict[str, Any]:
        return {"role": Role.DIMENSION}


@dataclass(frozen=True)
class Confidential(Hint):
    """Never leaves the publisher."""

    def fields(self) -> dict[str, Any]:
        return {"confidential": True}


@dataclass(frozen=True)
class Meaning(Hint):
    """What a value of any shape stands for."""

    unit: str | None = None
    domain: str | None = None
    period: int | None = None


class Shape(Hint, ABC):
    """A hint that decides the kind; `types` are the Python types it may stand on."""

    types: ClassVar[tuple[type, ...]] = ()

    @abstractmethod
    def kind(self, base: type) -> Kind:
        """The kind of a property of this Python type."""


@dataclass(frozen=True)
class Number(Shape):
    """A number; with a step it is counted in ticks and can be predicted."""

    types = (int, float)
    step: Fraction | float | int | str | None = None
    minimum: float | None = None
    maximum: float | None = None
    unit: str | None = None
    domain: str | None = None
    idle_band: float | None = None
    period: int | None = None

    def kind(self, base: type) -> Kind:
        if self.step is not None:
            return Kind.NUMBER
        return Kind.INTEGER if base is int else Kind.FLOAT


@dataclass(frozen=True)
class Timestamp(Shape):
    """An instant, written in one of the forms of `thinwire.schema.timestamps`."""

    types = (datetime, str, int, float)
    form: str | None = None
    step: Fraction | float | int | str | None = None

    def kind(self, base: type) -> Kind:
        return Kind.TIMESTAMP


@dataclass(frozen=True)
class Members(Shape):
    """A text out of a known set; more may appear at run time unless `closed`."""

    types = (str,)
    members: tuple[str, ...]
    closed: bool

    def __init__(self, *members: str, closed: bool = False) -> None:
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "closed", closed)

    def kind(self, base: type) -> Kind:
        return Kind.ENUM


@dataclass(frozen=True)
class Geo(Shape):
    """A position: latitude and longitude in degrees."""

    types = (list, tuple, Sequence)
    step: Fraction | float | int | str | None = None
    domain: str | None = None

    def kind(self, base: type) -> Kind:
        return Kind.GEO


@dataclass(frozen=True)
class Array(Shape):
    """Numbers at fixed places."""

    types = (list, tuple, Sequence)
    length: int
    step: Fraction | float | int | str
    minimum: float | None = None
    maximum: float | None = None
    unit: str | None = None
    domain: str | None = None
    idle_band: float | None = None

    def kind(self, base: type) -> Kind:
        return Kind.ARRAY


@dataclass(frozen=True)
class Opaque(Shape):
    """Any JSON value, taken whole."""

    types = (object,)

    def kind(self, base: type) -> Kind:
        return Kind.OPAQUE
