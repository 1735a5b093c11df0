"""Things that many rows share, by small numbers: texts, and what the events of a source have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.codec.arrow_columns import arrow_type, bound_type
from thinwire.schema import Property, Schema
from thinwire.schema.event import About
from thinwire.wire.json_body import to_json_value

T = TypeVar("T")
Codes = npt.NDArray[np.int32]


class Texts:
    """The texts of a column, each once.

    >>> texts = Texts()
    >>> [texts.code(text) for text in ("idle", None, "idle")]
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self._codes: dict[str | None, int] = {}

    def code(self, text: str | None) -> int:
        """The number of a text, or of none at all."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def column(self, codes: Codes) -> pa.Array:
        """The texts of all rows."""
        return pa.array(self.texts, type=pa.string()).take(pa.array(codes))

    @property
    def longest(self) -> int:
        """How many letters a row has at most."""
        return max((len(text or "") for text in self.texts), default=0)

    def sizes(self, codes: Codes) -> npt.NDArray[np.int64]:
        """How many letters each row has."""
        return np.array([len(text or "") for text in self.texts], dtype=np.int64)[codes]


class MetadataCodes:
    """What is known about events beside their values: source, bounds, and whether anything of them was told.

    Nearly all events of a source share one record of it, which is known again by its identity.
    """

    def __init__(self) -> None:
        self._metadata_codes: list[About] = []
        self._codes: dict[int, int] = {}

    def code(self, about: About | None) -> int:
        """The number of a record; of a source that nobody knows, -1."""
        if about is None:
            return -1
        code = self._codes.get(id(about))
        if code is None:
            code = self._codes[id(about)] = len(self._metadata_codes)
            self._metadata_codes.append(about)  # it stays here, so that its identity stays its own
        return code

    def sources(self, codes: Codes) -> pa.Array:
        """The dimension values of all rows, as JSON."""
        return _spread([source_text(about[1]) for about in self._metadata_codes], pa.string(), codes)

    def dimension(self, p: Property, place: int, codes: Codes) -> pa.Array:
        """A dimension's column; null where a peer told a value of another type."""
        kind = arrow_type(p)
        return _spread(
            [about[1][place] if _is_a(about[1][place], kind) else None for about in self._metadata_codes], kind, codes
        )

    def unfit(self, p: Property, place: int, codes: Codes) -> list[tuple[int, Any]]:
        """The rows whose dimension has another type than its column, and its value there."""
        kind = arrow_type(p)
        odd = {
            code: about[1][place] for code, about in enumerate(self._metadata_codes) if not _is_a(about[1][place], kind)
        }
        rows = np.flatnonzero(np.isin(codes, list(odd))).tolist() if odd else []
        return [(row, odd[int(codes[row])]) for row in rows]

    @property
    def longest(self) -> int:
        """How many letters the source of a row has at most."""
        return max((len(source_text(about[1])) for about in self._metadata_codes), default=0)

    def sizes(self, codes: Codes) -> npt.NDArray[np.int64]:
        """How many letters the source of each row has."""
        return np.array([len(source_text(about[1])) for about in self._metadata_codes], dtype=np.int64)[codes]

    def virtual(self, codes: Codes) -> pa.Array:
        """Which rows were not told."""
        return _spread([about[4] for about in self._metadata_codes], pa.bool_(), codes)

    def bounds(self, schema: Schema, codes: Codes) -> pa.Array:
        """The bounds of all rows; null where nothing is claimed."""
        told = {id(about[0]): about[0] for about in self._metadata_codes}
        places = {key: place for place, key in enumerate(told)}
        which = np.array([places[id(about[0])] for about in self._metadata_codes], dtype=np.int32)[codes]
        kind = bound_type(schema)
        columns = [_bound_column([bound.get(field.name) for bound in told.values()], which) for field in kind]
        return pa.StructArray.from_arrays(columns, fields=list(kind)) if columns else pa.array([{}] * len(codes), kind)


@lru_cache(maxsize=1 << 14, typed=True)
def _source_text(*key: Any) -> str:
    return _json(list(key))


def source_text(key: Sequence[Any]) -> str:
    """A source as text: its dimension values, as a JSON array.

    >>> source_text(("11.1", 4))
    '["11.1",4]'
    """
    return _source_text(*key)  # each value on its own, so that 1 and true are told apart


def value_text(value: Any) -> str:
    """An opaque value as JSON; bytes, which it has no word for, as `{"$bytes": base64}`, as in frames of plain JSON.

    >>> value_text({"b": [1, None]}), value_text(b"hi")
    ('{"b":[1,null]}', '{"$bytes":"aGk="}')
    """
    return _json(to_json_value(value))


def _json(value: Any) -> str:
    """Compact JSON; a text that UTF-8 cannot hold, which a peer may have told, is escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def codes_of(numbers: npt.NDArray[np.int64], things: Sequence[T], code: Callable[[T], int]) -> Codes:
    """The codes of rows that each name one of these things; each is asked for once, where that is less work."""
    if len(numbers) < len(things):
        return np.array([code(things[number]) for number in numbers.tolist()], dtype=np.int32)
    return np.array([code(thing) for thing in things], dtype=np.int32)[numbers]


def _bound_column(values: list[float | None], which: Codes) -> pa.Array:
    """One property's bounds: a few numbers, spread over all rows."""
    numbers = np.array([0.0 if value is None else value for value in values], dtype=np.float64)
    absent = np.array([value is None for value in values], dtype=np.bool_)
    return pa.array(numbers[which], mask=absent[which] if absent.any() else None)


def _spread(values: list[Any], kind: pa.DataType, codes: Codes) -> pa.Array:
    return pa.array(values, type=kind).take(pa.array(codes))


def _is_a(value: Any, kind: pa.DataType) -> bool:
    """Has a dimension's value, which a peer told, the type of its column?"""
    if isinstance(value, bool) or kind == pa.bool_():
        return isinstance(value, bool) and kind == pa.bool_()
    if isinstance(value, int):
        return kind == pa.int64() and -(1 << 63) <= value < 1 << 63
    return kind == pa.string() and (value.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in value))
