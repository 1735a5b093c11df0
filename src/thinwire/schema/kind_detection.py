"""Sample events turned on their side: one column of values per path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from thinwire.errors import ConfigError, SchemaError, WrongType

MAX_DEPTH = 8
MAX_KEYS = 256
"""an object with more keys than this is a table of its own, not a part of the event"""

_LEAVES = (bool, int, float, str, bytes, datetime, list, tuple)


@dataclass(frozen=True)
class Column:
    """The values seen at one path, nulls and readings that are no number left out.

    values: in the order of the events; missing: how many events have none
    """

    path: str
    values: list[Any]
    missing: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def types(self) -> set[type]:
        return {type(value) for value in self.values}


def columns_of(events: Iterable[Mapping[str, Any]], limit: int) -> tuple[int, list[Column]]:
    """How many events were read, at most `limit`, and the columns they make."""
    if limit < 1:
        raise ConfigError("limit must be at least 1", limit=limit)
    sample = list(islice(events, limit))
    if not sample:
        raise SchemaError("no sample events: give at least one")
    for index, event in enumerate(sample):
        if not isinstance(event, Mapping):
            raise WrongType("a sample event is a mapping from names to values", index=index, given=type(event).__name__)
        _check_keys(event, index)
    return len(sample), list(_split("", sample, len(sample), 0))


def _check_keys(event: Mapping[Any, Any], index: int) -> None:
    wrong = next((key for key in event if not _is_part(key)), None)
    if wrong is not None:
        raise SchemaError("a name is a text without dots: dots separate the parts of a path", index=index, name=wrong)


def _is_part(key: object) -> bool:
    return isinstance(key, str) and bool(key) and "." not in key


def _split(path: str, objects: list[Mapping[str, Any]], count: int, depth: int) -> Iterator[Column]:
    """The columns of some objects; keys in the order in which they first appear."""
    for key in dict.fromkeys(key for place in objects for key in place):
        values = [place[key] for place in objects if place.get(key) is not None]
        if _is_object(values, depth):
            yield from _split(f"{path}{key}.", values, count, depth + 1)
        else:
            yield _column(path + key, values, count)


def _is_object(values: list[Any], depth: int) -> bool:
    """Do these objects have a shape: few keys, all of them parts of a path?"""
    if depth + 1 >= MAX_DEPTH or not values or not all(isinstance(value, Mapping) for value in values):
        return False
    keys = {key for value in values for key in value}
    return 0 < len(keys) <= MAX_KEYS and all(map(_is_part, keys))


def _column(path: str, values: list[Any], count: int) -> Column:
    odd = next((value for value in values if not isinstance(value, (*_LEAVES, Mapping))), None)
    if odd is not None:
        raise SchemaError("a sample value is no JSON value: convert it first", property=path, given=type(odd).__name__)
    finite = [value for value in values if not isinstance(value, float) or math.isfinite(value)]
    return Column(path, finite, count - len(finite))
