"""What the name of a property tells about it, in the words that publishers use.

>>> words("stationId"), names_asset("stationId"), names_asset("event_id"), names_asset("humid")
(['station', 'id'], True, False, False)
>>> names_instant("observed_at"), names_instant("temperature")
(1, 0)
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_INSTANTS = frozenset({"time", "timestamp", "ts", "datetime", "date", "epoch", "instant", "t"})
_POSITIONS = frozenset({"position", "location"})
_ASSETS = frozenset(
    {"asset", "device", "host", "hostname", "machine", "meter", "mote", "node", "plant", "room", "sensor"}
    | {"station", "symbol", "ticker", "turbine", "vehicle"}
)
_HAPPENINGS = frozenset(
    {"batch", "category", "correlation", "error", "event", "message", "msg", "order", "request", "seq", "sequence"}
    | {"session", "span", "status", "trace", "transaction", "trip", "type"}
)


def words(name: str) -> list[str]:
    """The words of a name in snake_case, camelCase or with dashes."""
    return [word.lower() for word in _WORD.findall(name)]


def names_instant(name: str) -> int:
    """2 where the whole name is a word for an instant, 1 where it ends in one, else 0."""
    found = words(name) or [""]
    if len(found) == 1:
        return 2 if found[0] in _INSTANTS else 0
    return 2 if "".join(found) in _INSTANTS else int(found[-1] in _INSTANTS or found[-1] == "at")


def names_asset(name: str) -> bool:
    """Does the name say which asset it is, and not which of the things that happen to one?"""
    *before, last = words(name) or [""]
    if last == "id":
        return not before or before[-1] not in _HAPPENINGS
    return last in _ASSETS or last.removesuffix("id") in _ASSETS


def names_position(name: str) -> bool:
    return (words(name) or [""])[-1] in _POSITIONS
