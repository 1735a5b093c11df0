"""Nested objects and the paths that name their values.

A publisher's event may hold objects within objects; inside the system an event is flat, one value per path.

>>> from thinwire.schema import Property, Schema
>>> schema = Schema("plant.engine", [Property("time", "timestamp", "header"), Property("engine.oil.level", "integer")])
>>> flatten({"time": 5, "engine": {"oil": {"level": 3}}}, schema)
{'time': 5, 'engine.oil.level': 3}
>>> nest({"time": 5, "engine.oil.level": 3})
{'time': 5, 'engine': {'oil': {'level': 3}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thinwire.errors import UnknownProperty, WrongType
from thinwire.schema.schema import Schema


def flatten(event: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The values of an event by path. Only the schema's own paths are followed, so an opaque object stays whole.

    An object that is null or empty leaves all properties inside it absent.
    """
    if type(event) is not dict and not isinstance(event, Mapping):
        raise WrongType("an event is a mapping from names to values", given=type(event).__name__, schema=schema.name)
    if not schema.nested and event.keys() <= schema.tree.keys():
        return dict(event)
    flat: dict[str, Any] = {}
    _descend(event, schema.tree, "", flat, schema)
    return flat


def _descend(place: Mapping[str, Any], tree: dict[str, Any], path: str, flat: dict[str, Any], schema: Schema) -> None:
    for name, value in place.items():
        branch = tree.get(name)
        if type(branch) is str:
            flat[branch] = value
        elif branch is None:
            raise UnknownProperty(property=f"{path}{name}", schema=schema.name)
        elif type(value) is dict or isinstance(value, Mapping):
            _descend(value, branch, f"{path}{name}.", flat, schema)
        elif value is not None:
            given = type(value).__name__
            raise WrongType("an object is expected here", property=f"{path}{name}", given=given, schema=schema.name)


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The event with its objects back: the inverse of `flatten`."""
    event: dict[str, Any] = {}
    places: dict[str, dict[str, Any]] = {"": event}
    for path, value in flat.items():
        around, _, leaf = path.rpartition(".")
        place = places.get(around)
        if place is None:
            place = places[around] = _place(event, around)
        place[leaf] = value
    return event


def _place(event: dict[str, Any], path: str) -> dict[str, Any]:
    """The object at a path, made where it is missing."""
    for name in path.split("."):
        event = event.setdefault(name, {})
    return event
