"""Stored records: dataclasses whose field types state their limits, stored as JSON objects.

A document is declared by its fields. Every field is checked when a document is made, from a caller or from stored
bytes. Fields that this version does not define are kept and written back, so that an older process does not remove what
a newer one added. A field that is added later needs a default; the meaning of a stored field never changes.

    @dataclass(frozen=True)
    class LeaseDocument(Document):
        holder: Token
        epoch: Annotated[int, whole(most=MAX_EPOCH)] = 0
        beat: Count = 0

>>> from dataclasses import replace
>>> from thinwire.topics.leases import LeaseDocument
>>> lease = LeaseDocument.decode(b'{"holder":"t1","colour":"green"}')
>>> replace(lease, epoch=2).encode()
b'{"beat":0,"colour":"green","epoch":2,"holder":"t1"}'
>>> LeaseDocument("t1", epoch=-1)
Traceback (most recent call last):
thinwire.errors.RegistryError: ... epoch must be a whole number from 0 to 2147483647: field='epoch', given=-1
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    NoReturn,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from thinwire.errors import RegistryError, ThinwireError
from thinwire.topics.document_fields import Check, StoredName, check_flag, check_mapping, choice, refuse

MAX_DOCUMENT = 1_000_000
"""bytes of a document; brokers accept this much in one message by default"""
D = TypeVar("D", bound="Document")


@dataclass(frozen=True)
class Document:
    """Base of stored records.

    unknown: stored fields that this version does not define; not compared
    error: class of the errors for invalid fields
    omit_none: leave fields without a value out of the stored form
    """

    error: ClassVar[type[ThinwireError]] = RegistryError
    omit_none: ClassVar[bool] = False

    unknown: Mapping[str, Any] = field(default_factory=dict, kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        try:
            for name, stored_name, check, _ in stored_fields(type(self)):
                value = getattr(self, name)
                checked = check(stored_name, value)
                if checked is not value:
                    object.__setattr__(self, name, checked)
        except RegistryError as problem:
            raise self.error(problem.detail, **problem.facts) from None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the fields of a JSON object."""
        values, unknown = {}, dict(document)
        for name, stored_name, _, required in stored_fields(cls):
            if stored_name in unknown:
                values[name] = unknown.pop(stored_name)
            elif required:
                refuse(stored_name, "given", "nothing")
        return cls(**values, unknown=unknown)

    @classmethod
    def decode(cls, value: bytes, key: str = "") -> Self:
        """Read a stored document. A `RegistryError` names the field, and the key if given."""
        try:
            return cls.from_document(decode_object(value))
        except ThinwireError as problem:
            raise name_key(problem, key) if key else problem from None

    def to_document(self) -> dict[str, Any]:
        """All fields as JSON values, unknown ones included."""
        values = {stored_name: plain(getattr(self, name)) for name, stored_name, *_ in stored_fields(type(self))}
        if self.omit_none:
            values = {name: value for name, value in values.items() if value is not None}
        return {**self.unknown, **values}

    def encode(self) -> bytes:
        return encode_object(self.to_document())


class StoredField(NamedTuple):
    """A field of a document type; `required` if it has no default."""

    name: str
    stored_name: str
    check: Check
    required: bool


_FIELDS: dict[type[Document], tuple[StoredField, ...]] = {}


def stored_fields(kind: type[Document]) -> tuple[StoredField, ...]:
    """The stored fields of a document type, from its annotations."""
    if kind not in _FIELDS:
        hints = get_type_hints(kind, include_extras=True)
        _FIELDS[kind] = tuple(_describe(f, hints[f.name]) for f in fields(kind) if f.name != "unknown")
    return _FIELDS[kind]


def _describe(declared: Field[Any], hint: Any) -> StoredField:
    required = declared.default is MISSING and declared.default_factory is MISSING
    return StoredField(declared.name, _find_stored_name(hint) or declared.name, _find_check(hint), required)


def _find_stored_name(hint: Any) -> str | None:
    """The `StoredName` in the annotation of a field or of an optional field."""
    parts = [hint] if get_origin(hint) is Annotated else get_args(hint)
    found = (item for part in parts for item in getattr(part, "__metadata__", ()) if isinstance(item, StoredName))
    return next(found, None)


def _find_check(hint: Any) -> Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return arguments[1]  # type: ignore[no-any-return]
    if origin in (Union, UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        inner = _find_check(arguments[0])
        return lambda field, value: None if value is None else inner(field, value)
    if origin is Literal:
        return choice(*arguments)
    if hint is bool:
        return check_flag
    if isinstance(hint, type) and issubclass(hint, Document):
        return nested(hint)
    raise TypeError(f"no check for a field of type {hint}")


def nested(kind: type[D]) -> Check:
    """Check for a document inside a document. An error names the path of the field."""

    def check(field: str, value: Any) -> D:
        if isinstance(value, kind):
            return value
        try:
            return kind.from_document(check_mapping(field, value))
        except RegistryError as problem:
            inner = problem.facts.get("field", field)
            if inner == field:
                raise
            raise RegistryError(f"{field}.{problem.detail}", **problem.facts | {"field": f"{field}.{inner}"}) from None

    return check


def list_of(kind: type[D], most: int) -> Check:
    """Check for a list of at most `most` documents."""
    check_item = nested(kind)

    def check(field: str, value: Any) -> tuple[D, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            refuse(field, f"a list of at most {most}", type(value).__name__)
        return tuple(check_item(field, item) for item in value)

    return check


def plain(value: Any) -> Any:
    """JSON value of a field."""
    if isinstance(value, Document):
        return value.to_document()
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    return value


def name_key(problem: ThinwireError, key: str) -> RegistryError:
    """The error of a document with its key."""
    facts = {name: value for name, value in problem.facts.items() if name != "key"}
    return RegistryError(f"{key}: {problem.detail}", key=key, **facts)


def decode_object(value: bytes) -> dict[str, Any]:
    """Parse the JSON object of a document."""
    if len(value) > MAX_DOCUMENT:
        raise RegistryError("document above the limit", size=len(value), limit=MAX_DOCUMENT)
    try:
        document = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        raise RegistryError(f"not JSON: {problem}") from None
    if not isinstance(document, dict):
        raise RegistryError("a document is a JSON object", given=type(document).__name__)
    return document


def encode_object(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON: equal documents have equal bytes."""
    try:
        value = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as problem:
        raise RegistryError(f"cannot be written as JSON: {problem}") from None
    if len(value) > MAX_DOCUMENT:
        raise RegistryError("document above the limit", size=len(value), limit=MAX_DOCUMENT)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
