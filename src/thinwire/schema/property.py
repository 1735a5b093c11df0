"""Properties of events: role, kind, step, range and other declared facts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from typing import Any

from thinwire.errors import SchemaError
from thinwire.schema.custom_kind import NAME, find_custom_kind, kind_names
from thinwire.schema.kind import Kind
from thinwire.schema.timestamps import check_form


class Role(StrEnum):
    """The role of a property in its event."""

    HEADER = "header"
    """describes the event itself, such as its timestamp"""
    DIMENSION = "dimension"
    """identifies the asset; all dimension values together are the source"""
    MEASUREMENT = "measurement"
    """an observed value"""


MAX_NAME = 256
MAX_MEMBERS = 65_535
MAX_ARRAY = 32_768
MAX_PERIOD = 4_096

_NEEDS_STEP = frozenset({Kind.NUMBER, Kind.ARRAY})
_STATIC_KINDS = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.NUMBER, Kind.FLOAT, Kind.ENUM, Kind.STRING})
_STEP = re.compile(r"[+-]?(?:[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,2})?|[0-9]{1,40}/[0-9]{1,40})")


@dataclass(frozen=True, slots=True)
class Property:
    """A named value of an event.

    name: path of the value, with dots for nested objects (`"engine.temperature"`)
    step: grid of a number or of the elements of an array; values are multiples of it
    minimum, maximum: declared range; values outside it are always sent, and flagged
    unit, domain: physical unit and quantity, as IRIs or short names (`"qudt:DEG_C"`, `"qudt:Power"`)
    members: known members of an enum; others may occur at run time unless `closed`
    form: notation of a timestamp, see `thinwire.schema.timestamps`
    length: number of elements of an array
    idle_band: readings at most this far from zero count as zero (a machine that is off)
    period: number of events after which values repeat, for the seasonal predictor
    confidential: never leaves the publisher
    static: a fact about the source, stored once in the registry; events contain a reference to it
    custom_kind: name of the `CustomKind` whose values publishers and subscribers use; `kind` is then its base

    >>> Property("temperature", Kind.NUMBER, step="0.1", minimum=0, maximum=50).step
    Fraction(1, 10)
    """

    name: str
    kind: Kind
    role: Role = Role.MEASUREMENT
    step: Fraction | None = None
    minimum: float | None = None
    maximum: float | None = None
    unit: str | None = None
    domain: str | None = None
    members: tuple[str, ...] = ()
    closed: bool = False
    form: str | None = None
    length: int | None = None
    idle_band: float | None = None
    period: int | None = None
    confidential: bool = False
    static: bool = False
    custom_kind: str | None = None

    def __init__(
        self,
        name: str,
        kind: Kind | str,
        role: Role | str = Role.MEASUREMENT,
        *,
        step: Fraction | float | int | str | None = None,
        minimum: float | None = None,
        maximum: float | None = None,
        unit: str | None = None,
        domain: str | None = None,
        members: tuple[str, ...] | list[str] = (),
        closed: bool = False,
        form: str | None = None,
        length: int | None = None,
        idle_band: float | None = None,
        period: int | None = None,
        confidential: bool = False,
        static: bool = False,
        custom_kind: str | None = None,
    ) -> None:
        if kind not in list(Kind) and (custom := find_custom_kind(kind)) is not None:
            kind, custom_kind, step = custom.base, kind, custom.step if step is None else step
        converted = {
            "kind": _member(Kind, kind, name, kind_names()),
            "role": _member(Role, role, name, [role.value for role in Role]),
            "step": _exact(step, name),
        }
        arguments = {**locals(), **converted, "members": tuple(members)}
        for field in fields(Property):
            object.__setattr__(self, field.name, arguments[field.name])
        _check(self)

    def to_document(self) -> dict[str, Any]:
        """Return the property in JSON types, without fields that have their default."""
        document: dict[str, Any] = {"name": self.name, "kind": self.kind.value}
        for field in fields(self)[2:]:
            value = getattr(self, field.name)
            if value != field.default:
                document[field.name] = _plain(value)
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Property:
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(document) - known)
        if unknown:
            raise SchemaError(f"unknown field {unknown[0]!r}", property=document.get("name"), known=sorted(known))
        if "name" not in document or "kind" not in document:
            raise SchemaError("a property needs a name and a kind", given=sorted(document))
        return cls(**document)


def _member(kinds: type[Kind] | type[Role], value: str, name: str, choices: list[str]) -> Kind | Role:
    try:
        return kinds(value)
    except ValueError:
        raise SchemaError(f"unknown {kinds.__name__.lower()} {value!r}", property=name, choices=choices) from None


def _exact(step: Fraction | float | int | str | None, name: str) -> Fraction | None:
    """Return the step as written in decimal: 0.1 is one tenth, not the nearest double."""
    if step is None:
        return None
    # Checked as text first: the exact value of "1e-999999999" would exhaust the memory.
    if _STEP.fullmatch(str(step)):
        with suppress(ValueError, ZeroDivisionError):
            return Fraction(str(step))
    raise SchemaError("the step is not a number of at most 40 digits", property=name, step=str(step))


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    return list(value) if isinstance(value, tuple) else getattr(value, "value", value)


def _check_types(p: Property) -> None:
    """Check the types of the fields, because a document from outside may contain any JSON."""
    for field, expected, fits in _EXPECTED:
        value = getattr(p, field)
        if value is not None and not fits(value):
            raise SchemaError(f"{field} must be {expected}", property=p.name, given=value)


def _is_text(value: object) -> bool:
    """Return whether a value is a text that UTF-8 can encode; a lone surrogate cannot be encoded."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    largest = sys.float_info.max
    return isinstance(value, int | float) and not isinstance(value, bool) and -largest <= value <= largest


_FLAGS = ("closed", "confidential", "static")
_EXPECTED: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    *((field, "a text", _is_text) for field in ("name", "unit", "domain", "form")),
    *((field, "a whole number", _is_count) for field in ("length", "period")),
    *((field, "a finite number", _is_real) for field in ("minimum", "maximum", "idle_band")),
    *((field, "true or false", lambda value: isinstance(value, bool)) for field in _FLAGS),
    (
        "custom_kind",
        "up to 64 lower-case letters, digits and '_.-'",
        lambda value: _is_text(value) and NAME.fullmatch(value) is not None,
    ),
    ("members", "a list of texts", lambda value: all(map(_is_text, value))),
)


def _check(p: Property) -> None:
    _check_types(p)
    if not p.name or len(p.name) > MAX_NAME or any(not part for part in p.name.split(".")):
        raise SchemaError("a name is 1 to 256 characters, path parts not empty", property=p.name, limit=MAX_NAME)
    if p.kind in _NEEDS_STEP and p.step is None:
        raise SchemaError(f"a {p.kind.value} needs a step; a number without a step is a float", property=p.name)
    if p.step is not None and p.step <= 0:
        raise SchemaError("the step must be above zero", property=p.name, step=str(p.step))
    if p.minimum is not None and p.maximum is not None and p.minimum > p.maximum:
        raise SchemaError("the range is empty", property=p.name, minimum=p.minimum, maximum=p.maximum)
    if len(p.members) > MAX_MEMBERS or len(set(p.members)) != len(p.members):
        raise SchemaError("enum members must be distinct", property=p.name, count=len(p.members), limit=MAX_MEMBERS)
    if p.closed and not p.members:
        raise SchemaError("a closed enum needs members", property=p.name)
    if p.length is not None and not 0 < p.length <= MAX_ARRAY:
        raise SchemaError("array length outside its limit", property=p.name, length=p.length, limit=MAX_ARRAY)
    if p.period is not None and not 1 < p.period <= MAX_PERIOD:
        raise SchemaError("period outside its limit", property=p.name, period=p.period, limit=MAX_PERIOD)
    if p.idle_band is not None:
        _check_idle_band(p, p.idle_band)
    if p.kind is Kind.TIMESTAMP:
        check_form(p.form, p.name)
    if p.confidential and p.role is not Role.MEASUREMENT:
        raise SchemaError("only measurements can be confidential", property=p.name, role=p.role.value)
    if p.static:
        _check_static(p)


def _check_idle_band(p: Property, band: float) -> None:
    if band < 0:
        raise SchemaError("the idle band must not be negative", property=p.name, idle_band=band)
    if p.kind not in (Kind.NUMBER, Kind.INTEGER):
        detail = "only numbers that have a step can have an idle band"
        raise SchemaError(detail, property=p.name, kind=p.kind.value, idle_band=band)


def _check_static(p: Property) -> None:
    if p.role is Role.DIMENSION:
        raise SchemaError("a dimension identifies the source and cannot be static", property=p.name)
    if p.kind not in _STATIC_KINDS:
        kinds = sorted(kind.value for kind in _STATIC_KINDS)
        raise SchemaError(f"a {p.kind.value} cannot be static", property=p.name, choose_from=kinds)
    if p.confidential:
        raise SchemaError("a confidential property is never sent, so it cannot be static", property=p.name)
