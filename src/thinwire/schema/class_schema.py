"""Schemas read from annotated classes: dataclasses, TypedDicts, plain classes.

>>> from dataclasses import dataclass
>>> from datetime import datetime
>>> from typing import Annotated
>>> @dataclass
... class Reading:
...     time: Annotated[datetime, Header()]
...     sensor: Annotated[str, Dimension()]
...     temperature: Annotated[float, Number(step="0.1", minimum=0, maximum=50, unit="qudt:DEG_C")]
>>> schema = from_class(Reading, name="building.rooms")
>>> [(p.name, p.kind.value, p.role.value) for p in schema]
[('time', 'timestamp', 'header'), ('sensor', 'string', 'dimension'), ('temperature', 'number', 'measurement')]

Hints: what an annotation says about a property beyond its Python type, inside `typing.Annotated`.

>>> Number(step="0.1", maximum=50).fields()
{'step': '0.1', 'maximum': 50}
"""

from __future__ import annotations

import enum
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, fields, is_dataclass
from datetime import datetime
from fractions import Fraction
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NoReturn,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from thinwire.errors import SchemaError
from thinwire.schema.property import Kind, Property, Role
from thinwire.schema.schema import Schema


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


_KINDS = {
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.FLOAT,
    str: Kind.STRING,
    bytes: Kind.OPAQUE,
    datetime: Kind.TIMESTAMP,
}
_WRAPPERS = (Required, NotRequired, Final)
_ADVICE = (
    "use bool, int, float, str, bytes, datetime, an Enum, a Literal of texts or a nested class, "
    "or take the value whole with Annotated[..., Opaque()]"
)


def from_class(cls: type, *, name: str | None = None, version: int = 1) -> Schema:
    """The schema of a class: one property per annotated field, a nested class becomes a path.

    The schema bears the name of the class where none is given. `X | None` is `X`: any measurement may be absent.
    """
    return Schema(cls.__name__ if name is None else name, list(_properties(cls, "", ())), version)


def _properties(cls: type, path: str, around: tuple[type, ...]) -> Iterator[Property]:
    if cls in around:
        raise SchemaError("a class cannot hold itself: mark the field Opaque()", property=path[:-1], cls=cls.__name__)
    for field, annotation in _annotations(cls).items():
        base, hints = _unwrap(annotation)
        shaped = any(isinstance(hint, Shape) for hint in hints)
        if _is_record(base) and not shaped:
            _refuse_hints(hints, path + field)
            yield from _properties(base, f"{path}{field}.", (*around, cls))
        else:
            yield _property(path + field, base, hints)


def _annotations(cls: type) -> dict[str, Any]:
    try:
        annotations = get_type_hints(cls, include_extras=True)
    except NameError as problem:
        raise SchemaError(f"an annotation cannot be resolved: {problem}", cls=cls.__name__) from None
    kept = {name: note for name, note in annotations.items() if not _is_of_the_class(note)}
    if not kept:
        raise SchemaError("the class has no annotated fields", cls=cls.__name__)
    return kept


def _is_of_the_class(annotation: Any) -> bool:
    return annotation is ClassVar or get_origin(annotation) is ClassVar or isinstance(annotation, InitVar)


def _unwrap(annotation: Any) -> tuple[Any, list[Hint]]:
    """The type inside all the wrappers, and the hints found on the way."""
    hints: list[Hint] = []
    while True:
        origin, inner = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            hints += [hint() if inspect.isclass(hint) and issubclass(hint, Hint) else hint for hint in inner[1:]]
            annotation = inner[0]
        elif origin in _WRAPPERS:
            annotation = inner[0]
        elif origin in (Union, UnionType) and _common(inner) is not None:
            annotation = _common(inner)
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        else:
            return annotation, [hint for hint in hints if isinstance(hint, Hint)]


def _common(choices: tuple[Any, ...]) -> Any:
    """`X | None` is X, and `int | float` is float; other unions have no one type."""
    types = [choice for choice in choices if choice is not NoneType]
    if len(types) == 1:
        return types[0]
    return float if set(types) == {int, float} else None


def _is_record(base: Any) -> bool:
    if not inspect.isclass(base) or issubclass(base, enum.Enum) or base in _KINDS:
        return False
    return is_dataclass(base) or is_typeddict(base) or bool(inspect.get_annotations(base))


def _property(path: str, base: Any, hints: list[Hint]) -> Property:
    shapes = [hint for hint in hints if isinstance(hint, Shape)]
    if len(shapes) > 1:
        raise SchemaError("two hints decide the kind", property=path, hints=[type(s).__name__ for s in shapes])
    details = _shape(path, base, shapes[0] if shapes else None)
    for hint in hints:
        details |= hint.fields()
    return Property(path, **details)


def _shape(path: str, base: Any, shape: Shape | None) -> dict[str, Any]:
    """Kind and kind-specific fields, from the hint where there is one, else from the type."""
    plain = get_origin(base) or base
    form = {"form": "datetime"} if plain is datetime else {}
    if shape is not None:
        if plain not in shape.types and object not in shape.types:
            types = [t.__name__ for t in shape.types]
            raise SchemaError(f"{type(shape).__name__} stands on {', '.join(types)}", property=path, given=_name(base))
        _check_text_form(path, plain, shape)
        return {"kind": shape.kind(plain), **(form if isinstance(shape, Timestamp) else {})}
    if plain in _KINDS:
        return {"kind": _KINDS[plain], **form}
    members = _members(base)
    if members is None:
        _no_kind(path, base)
    return {"kind": Kind.ENUM, "members": members, "closed": True}


def _check_text_form(path: str, plain: Any, shape: Shape) -> None:
    if isinstance(shape, Timestamp) and plain is str and not (shape.form or "").startswith("iso"):
        raise SchemaError("a timestamp that is text needs its form, such as iso:T3Z", property=path, form=shape.form)


def _members(base: Any) -> tuple[str, ...] | None:
    """The texts of a Literal, or of an Enum: its values where they are texts, else its names."""
    if inspect.isclass(base) and issubclass(base, enum.Enum):
        values = [member.value for member in base]
        texts = values if all(isinstance(value, str) for value in values) else [member.name for member in base]
        return tuple(texts)
    if get_origin(base) is Literal and all(isinstance(text, str) for text in get_args(base)):
        return get_args(base)
    return None


def _refuse_hints(hints: list[Hint], path: str) -> None:
    if hints:
        given = [type(hint).__name__ for hint in hints]
        raise SchemaError("hints belong on the fields of a nested class, not on the class", property=path, hints=given)


def _no_kind(path: str, base: Any) -> NoReturn:
    raise SchemaError(f"the annotation has no kind: {_ADVICE}", property=path, annotation=_name(base))


def _name(base: Any) -> str:
    return base.__name__ if inspect.isclass(base) and not get_args(base) else str(base)
