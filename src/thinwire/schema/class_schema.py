"""Schemas from annotated classes: dataclasses, TypedDicts and plain classes.

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

Hints inside `typing.Annotated` state what the Python type does not.

>>> Number(step="0.1", maximum=50).fields()
{'step': '0.1', 'maximum': 50}
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field, fields, is_dataclass
from datetime import datetime
from fractions import Fraction
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from thinwire.errors import SchemaError
from thinwire.schema.kind import Kind
from thinwire.schema.property import Property, Role
from thinwire.schema.schema import Schema

Step = Fraction | float | int | str | None


class Hint:
    """A statement about a property; `fields` are fields of `Property`."""

    def fields(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Header(Hint):
    """Describes the event itself, such as its timestamp."""

    role: Role = field(default=Role.HEADER, init=False)


@dataclass(frozen=True)
class Dimension(Hint):
    """Identifies the asset."""

    role: Role = field(default=Role.DIMENSION, init=False)


@dataclass(frozen=True)
class Confidential(Hint):
    """Never leaves the publisher."""

    confidential: bool = field(default=True, init=False)


@dataclass(frozen=True)
class Meaning(Hint):
    """Unit, quantity and period of a value of any kind."""

    unit: str | None = None
    domain: str | None = None
    period: int | None = None


class KindHint(Hint):
    """A hint that decides the kind of a property.

    types: Python types that it can annotate
    kind: kind of the property
    """

    types: ClassVar[tuple[type, ...]]
    kind: ClassVar[Kind]


@dataclass(frozen=True)
class Number(KindHint):
    """A number; with a step it is counted in ticks and can be predicted."""

    types = (int, float)
    kind = Kind.NUMBER
    step: Step = None
    minimum: float | None = None
    maximum: float | None = None
    unit: str | None = None
    domain: str | None = None
    idle_band: float | None = None
    period: int | None = None


@dataclass(frozen=True)
class Timestamp(KindHint):
    """An instant in one of the forms of `thinwire.schema.timestamps`."""

    types = (datetime, str, int, float)
    kind = Kind.TIMESTAMP
    form: str | None = None
    step: Step = None


@dataclass(frozen=True, init=False)
class Members(KindHint):
    """A text out of known ones; others may occur at run time unless `closed`."""

    types = (str,)
    kind = Kind.ENUM
    members: tuple[str, ...]
    closed: bool

    def __init__(self, *members: str, closed: bool = False) -> None:
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "closed", closed)


@dataclass(frozen=True)
class Geo(KindHint):
    """A position: latitude and longitude in degrees."""

    types = (list, tuple, Sequence)
    kind = Kind.GEO
    step: Step = None
    domain: str | None = None


@dataclass(frozen=True)
class Array(KindHint):
    """A fixed number of numbers."""

    types = (list, tuple, Sequence)
    kind = Kind.ARRAY
    length: int
    step: Step
    minimum: float | None = None
    maximum: float | None = None
    unit: str | None = None
    domain: str | None = None
    idle_band: float | None = None


@dataclass(frozen=True)
class Opaque(KindHint):
    """Any JSON value, not split into properties."""

    types = (object,)
    kind = Kind.OPAQUE


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
    "or keep the value in one property with Annotated[..., Opaque()]"
)


def from_class(cls: type, *, name: str | None = None, version: int = 1) -> Schema:
    """Return the schema of a class: one property per annotated field; nested classes become paths.

    The default name is that of the class. `X | None` is read as `X`, because any measurement may be absent.
    """
    return Schema(cls.__name__ if name is None else name, list(_properties(cls, "", ())), version)


def _properties(cls: type, path: str, parents: tuple[type, ...]) -> Iterator[Property]:
    if cls in parents:
        raise SchemaError(
            "a class cannot contain itself: mark the field Opaque()", property=path[:-1], cls=cls.__name__
        )
    for name, annotation in _annotations(cls).items():
        base, hints = _unwrap(annotation)
        if _is_record(base) and not any(isinstance(hint, KindHint) for hint in hints):
            if hints:
                detail = "hints belong on the fields of a nested class, not on the class"
                raise SchemaError(detail, property=path + name, hints=[type(hint).__name__ for hint in hints])
            yield from _properties(base, f"{path}{name}.", (*parents, cls))
        else:
            yield _property(path + name, base, hints)


def _annotations(cls: type) -> dict[str, Any]:
    try:
        annotations = get_type_hints(cls, include_extras=True)
    except NameError as problem:
        raise SchemaError(f"an annotation cannot be resolved: {problem}", cls=cls.__name__) from None
    kept = {name: annotation for name, annotation in annotations.items() if not _is_class_variable(annotation)}
    if not kept:
        raise SchemaError("the class has no annotated fields", cls=cls.__name__)
    return kept


def _is_class_variable(annotation: Any) -> bool:
    return annotation is ClassVar or get_origin(annotation) is ClassVar or isinstance(annotation, InitVar)


def _unwrap(annotation: Any) -> tuple[Any, list[Hint]]:
    """Return the type inside all wrappers, and the hints of the wrappers."""
    hints: list[Hint] = []
    while True:
        origin, inner = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            hints += [hint() if inspect.isclass(hint) and issubclass(hint, Hint) else hint for hint in inner[1:]]
            annotation = inner[0]
        elif origin in _WRAPPERS:
            annotation = inner[0]
        elif origin in (Union, UnionType) and _common_type(inner) is not None:
            annotation = _common_type(inner)
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        else:
            return annotation, [hint for hint in hints if isinstance(hint, Hint)]


def _common_type(choices: tuple[Any, ...]) -> Any:
    """Return X for `X | None` and float for `int | float`; None for other unions."""
    types = [choice for choice in choices if choice is not NoneType]
    if len(types) == 1:
        return types[0]
    return float if set(types) == {int, float} else None


def _is_record(base: Any) -> bool:
    if not inspect.isclass(base) or issubclass(base, enum.Enum) or base in _KINDS:
        return False
    return is_dataclass(base) or is_typeddict(base) or bool(inspect.get_annotations(base))


def _property(path: str, base: Any, hints: list[Hint]) -> Property:
    kind_hints = [hint for hint in hints if isinstance(hint, KindHint)]
    if len(kind_hints) > 1:
        raise SchemaError("two hints decide the kind", property=path, hints=[type(h).__name__ for h in kind_hints])
    details: dict[str, Any] = {"kind": _hinted(path, base, kind_hints[0])} if kind_hints else _unhinted(path, base)
    if details["kind"] is Kind.TIMESTAMP and base is datetime:
        details["form"] = "datetime"
    for hint in hints:
        details |= hint.fields()
    return Property(path, **details)


def _hinted(path: str, base: Any, hint: KindHint) -> Kind:
    """Return the kind from a hint."""
    plain = get_origin(base) or base
    if plain not in hint.types and object not in hint.types:
        types = ", ".join(t.__name__ for t in hint.types)
        raise SchemaError(f"{type(hint).__name__} annotates {types}", property=path, given=_name(base))
    if isinstance(hint, Timestamp) and plain is str and not (hint.form or "").startswith("iso"):
        raise SchemaError("a timestamp that is text needs its form, such as iso:T3Z", property=path, form=hint.form)
    return _KINDS[plain] if isinstance(hint, Number) and hint.step is None else hint.kind


def _unhinted(path: str, base: Any) -> dict[str, Any]:
    """Return the kind and its fields from the Python type."""
    plain = get_origin(base) or base
    if plain in _KINDS:
        return {"kind": _KINDS[plain]}
    members = _members(base)
    if members is None:
        raise SchemaError(f"the annotation has no kind: {_ADVICE}", property=path, annotation=_name(base))
    return {"kind": Kind.ENUM, "members": members, "closed": True}


def _members(base: Any) -> tuple[str, ...] | None:
    """Return the texts of a Literal or of an Enum: its values if they are texts, otherwise its names."""
    if inspect.isclass(base) and issubclass(base, enum.Enum):
        values = [member.value for member in base]
        return tuple(values if all(isinstance(value, str) for value in values) else [member.name for member in base])
    if get_origin(base) is Literal and all(isinstance(text, str) for text in get_args(base)):
        return get_args(base)
    return None


def _name(base: Any) -> str:
    return base.__name__ if inspect.isclass(base) and not get_args(base) else str(base)
