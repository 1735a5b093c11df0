"""Values that many rows share, by code: texts, and the metadata of a source's events."""

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


class InternedTexts:
    """The distinct texts of a column.

    >>> texts = InternedTexts()
    >>> [texts.code(text) for text in ("idle", None, "idle")]
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self._codes: dict[str | None, int] = {}

    def code(self, text: str | None) -> int:
        """Return the code of a text or of None."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def column(self, codes: Codes) -> pa.Array:
        """Return the texts of all rows."""
        return _spread(self.texts, pa.string(), codes)

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of characters of the text of each code."""
        return np.array([len(text or "") for text in self.texts], dtype=np.int64)


class MetadataCodes:
    """Distinct event metadata: source, bounds, and whether the event is virtual.

    The events of a source share one metadata object, which is recognised by its identity.
    """

    def __init__(self) -> None:
        self._metadata: list[About] = []
        self._codes: dict[int, int] = {}

    def code(self, metadata: About | None) -> int:
        """Return the code of a metadata object; -1 for None."""
        if metadata is None:
            return -1
        code = self._codes.get(id(metadata))
        if code is None:
            code = self._codes[id(metadata)] = len(self._metadata)
            self._metadata.append(metadata)  # the reference keeps its id unique
        return code

    def sources(self, codes: Codes) -> pa.Array:
        """Return the sources of all rows as JSON."""
        return _spread([source_text(metadata[1]) for metadata in self._metadata], pa.string(), codes)

    def dimension(self, p: Property, index: int, codes: Codes) -> pa.Array:
        """Return the column of a dimension; null where a peer sent another type."""
        kind = arrow_type(p)
        values = (metadata[1][index] for metadata in self._metadata)
        return _spread([value if _is_a(value, kind) else None for value in values], kind, codes)

    def unfit(self, p: Property, index: int, codes: Codes) -> list[tuple[int, Any]]:
        """Return the rows whose dimension has another type than its column, with the value."""
        kind = arrow_type(p)
        values = (metadata[1][index] for metadata in self._metadata)
        unfit = {code: value for code, value in enumerate(values) if not _is_a(value, kind)}
        rows = np.flatnonzero(np.isin(codes, list(unfit))).tolist() if unfit else []
        return [(row, unfit[int(codes[row])]) for row in rows]

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of characters of the source of each code."""
        return np.array([len(source_text(metadata[1])) for metadata in self._metadata], dtype=np.int64)

    def virtual(self, codes: Codes) -> pa.Array:
        """Return which rows are virtual events."""
        return _spread([metadata[4] for metadata in self._metadata], pa.bool_(), codes)

    def bounds(self, schema: Schema, codes: Codes) -> pa.Array:
        """Return the bounds of all rows; null where there is none."""
        bounds = {id(metadata[0]): metadata[0] for metadata in self._metadata}
        indexes = {key: index for index, key in enumerate(bounds)}
        which = np.array([indexes[id(metadata[0])] for metadata in self._metadata], dtype=np.int32)[codes]
        kind = bound_type(schema)
        columns = [_spread([bound.get(field.name) for bound in bounds.values()], pa.float64(), which) for field in kind]
        return pa.StructArray.from_arrays(columns, fields=list(kind)) if columns else pa.array([{}] * len(codes), kind)


@lru_cache(maxsize=1 << 14, typed=True)
def _source_text(*key: Any) -> str:
    return _json(list(key))


def source_text(key: Sequence[Any]) -> str:
    """Return a source as text: its dimension values as a JSON array.

    >>> source_text(("11.1", 4))
    '["11.1",4]'
    """
    return _source_text(*key)  # separate arguments: the cache must distinguish 1 and true


def value_text(value: Any) -> str:
    """Return an opaque value as JSON; bytes as `{"$bytes": base64}`, as in JSON frames.

    >>> value_text({"b": [1, None]}), value_text(b"hi")
    ('{"b":[1,null]}', '{"$bytes":"aGk="}')
    """
    return _json(to_json_value(value))


def _json(value: Any) -> str:
    """Return compact JSON; texts that UTF-8 cannot encode are escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def codes_of(numbers: npt.NDArray[np.int64], values: Sequence[T], code: Callable[[T], int]) -> Codes:
    """Return the code of the value that each row refers to. Each value or each row is coded once, whichever is less."""
    if len(numbers) < len(values):
        return np.array([code(values[number]) for number in numbers.tolist()], dtype=np.int32)
    return np.array([code(value) for value in values], dtype=np.int32)[numbers]


def _spread(values: Sequence[Any], kind: pa.DataType, codes: Codes) -> pa.Array:
    """Return the value of each row's code."""
    return pa.array(values, type=kind).take(pa.array(codes))


def _is_a(value: Any, kind: pa.DataType) -> bool:
    """Check whether a dimension value of a peer has the type of its column."""
    if isinstance(value, bool) or kind == pa.bool_():
        return isinstance(value, bool) and kind == pa.bool_()
    if isinstance(value, int):
        return kind == pa.int64() and -(1 << 63) <= value < 1 << 63
    return kind == pa.string() and (value.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in value))
