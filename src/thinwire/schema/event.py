"""Events as subscribers receive them, and conversion between nested objects and flat events.

The events of publishers may contain nested objects. Inside the system an event is flat: one value per path.

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

About = tuple[Mapping[str, float | None], tuple[Any, ...], str, int, bool, bool, tuple[str, ...]]
"""bound, source, publisher, incarnation, virtual, provisional, flags; most events of a source share one tuple"""

Identity = tuple[str, int, tuple[Any, ...], int]
"""publisher, incarnation, source, ordinal; equal if an event is received again"""


class Event(dict[str, Any]):
    """A reconstructed event: a dict of values with error bounds and identity.

    bound: largest distance of each value from the published one; None if unknown
    virtual: every value was predicted, none was sent
    provisional: the event is after the watermark and may not have happened
    source: dimension values; ordinal: number of the event within its source
    publisher, incarnation: origin of the event
    flags: properties outside their declared range

    >>> event = Event({"sensor": "T1", "temperature": 20.5}, bound={"temperature": 0.5}, source=("T1",), ordinal=3)
    >>> event["temperature"], event.bound["temperature"], event.virtual
    (20.5, 0.5, False)
    >>> event.identity
    ('', 0, ('T1',), 3)
    """

    __slots__ = ("_about", "ordinal")
    _about: About
    ordinal: int

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        bound: Mapping[str, float | None],
        source: tuple[Any, ...],
        ordinal: int,
        publisher: str = "",
        incarnation: int = 0,
        virtual: bool = False,
        provisional: bool = False,
        flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(values)
        self._about = (bound, source, publisher, incarnation, virtual, provisional, flags)
        self.ordinal = ordinal

    @classmethod
    def of(cls, values: dict[str, Any], about: About, ordinal: int) -> Event:
        """Create an event faster, from the tuple that most events of a source share."""
        event = cls.__new__(cls, values)
        event.update(values)
        event._about = about
        event.ordinal = ordinal
        return event

    def like(
        self,
        values: dict[str, Any],
        bound: Mapping[str, float | None] | None = None,
        flags: tuple[str, ...] | None = None,
    ) -> Event:
        """Return the event with other values, and other bounds and flags if given."""
        about = self._about if bound is None else (bound, *self._about[1:])
        return Event.of(values, about if flags is None else (*about[:-1], flags), self.ordinal)

    @property
    def bound(self) -> Mapping[str, float | None]:
        return self._about[0]

    @property
    def source(self) -> tuple[Any, ...]:
        return self._about[1]

    @property
    def publisher(self) -> str:
        return self._about[2]

    @property
    def incarnation(self) -> int:
        return self._about[3]

    @property
    def identity(self) -> Identity:
        _, source, publisher, incarnation, *_ = self._about
        return publisher, incarnation, source, self.ordinal

    @property
    def virtual(self) -> bool:
        return self._about[4]

    @property
    def provisional(self) -> bool:
        return self._about[5]

    @property
    def flags(self) -> tuple[str, ...]:
        return self._about[6]


def flatten(event: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Return the values of an event by path.

    Only paths of the schema are followed, so an opaque object is not split. An object that is null or empty makes all
    properties inside it absent.
    """
    if type(event) is not dict and not isinstance(event, Mapping):
        raise WrongType("an event is a mapping from names to values", given=type(event).__name__, schema=schema.name)
    if not schema.nested and event.keys() <= schema.tree.keys():
        return dict(event)
    flat: dict[str, Any] = {}
    _descend(event, schema.tree, "", flat, schema)
    return flat


def _descend(node: Mapping[str, Any], tree: dict[str, Any], path: str, flat: dict[str, Any], schema: Schema) -> None:
    for name, value in node.items():
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
    """Return the event with nested objects: the inverse of `flatten`."""
    event: dict[str, Any] = {}
    objects: dict[str, dict[str, Any]] = {"": event}
    for path, value in flat.items():
        parent, _, leaf = path.rpartition(".")
        if parent not in objects:
            node = event
            for name in parent.split("."):
                node = node.setdefault(name, {})
            objects[parent] = node
        objects[parent][leaf] = value
    return event
