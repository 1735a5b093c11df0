"""What a scenario says: topics that change over time, and who subscribes to them.

A rate over time, and the instants at which events are due by it.

Instants follow from the rate alone, never from how long anything takes: whoever falls behind is late for all that was
due meanwhile.

>>> Curve(((0.0, 0.0), (10.0, 4.0))).instants(10.0).round(2).tolist()[:4]
[1.58, 2.74, 3.54, 4.18]
>>> len(Curve(((0.0, 100.0),)).instants(2.0))
200

A scenario from its TOML; what cannot be right is refused by the name of the field.

>>> text = '''
... name = "small"
... duration = 5
... [topics.market]
... source = "market"
... rate = [[0, 10], [5, 100]]
... [[subscribers]]
... topic = "market"
... where = "close > 100"
... '''
>>> read_scenario(text).audiences[0].label
'where close > 100'
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclasses_field
from itertools import pairwise
from typing import Any, Literal, NoReturn, get_args

import numpy as np

from thinwire_lab.errors import ScenarioError
from thinwire_lab.workload.random_rows import Floats, uniforms

Arrivals = Literal["even", "random"]
"""even: as regular as the rate is; random: independent of each other (Poisson)"""

MAX_EVENTS = 50_000_000


@dataclass(frozen=True)
class Curve:
    """Events a second: points (second, rate) joined by straight lines, level before the first and after the last."""

    points: tuple[tuple[float, float], ...]

    def rate(self, second: float) -> float:
        """The rate at a second."""
        return float(np.interp(second, *np.array(self.points).T))

    def instants(self, duration: float, arrivals: Arrivals = "even", seed: int = 0) -> Floats:
        """When events are due within so many seconds, ascending."""
        knots, reached = self._knots(duration)
        total = float(reached[-1])
        if total > MAX_EVENTS:
            raise ScenarioError("more events than a run takes", field="rate", events=round(total), limit=MAX_EVENTS)
        return self._inverse(knots, reached, _places(total, arrivals, seed))

    def _knots(self, duration: float) -> tuple[Floats, Floats]:
        """Seconds between which the rate is straight, and how many events are due by each."""
        inner = [at for at, _ in self.points if 0 < at < duration]
        knots = np.array([0.0, *inner, duration])
        rates = np.array([self.rate(at) for at in knots])
        due = (rates[1:] + rates[:-1]) / 2 * np.diff(knots)
        return knots, np.concatenate([[0.0], np.cumsum(due)])

    def _inverse(self, knots: Floats, reached: Floats, places: Floats) -> Floats:
        """The second at which so many events are due: a quadratic between two knots, solved without cancellation."""
        part = np.clip(np.searchsorted(reached, places, side="left") - 1, 0, len(knots) - 2)
        rates = np.array([self.rate(at) for at in knots])
        first, width = rates[part], np.diff(knots)[part]
        slope = (rates[part + 1] - first) / width
        left = places - reached[part]
        root = np.sqrt(np.maximum(first * first + 2 * slope * left, 0.0))
        return np.asarray(knots[part] + np.minimum(2 * left / np.maximum(first + root, np.finfo(float).tiny), width))


def _places(total: float, arrivals: Arrivals, seed: int) -> Floats:
    """Of every event how many are due up to it, in the middle of its turn."""
    if arrivals == "even":
        return np.arange(int(total + 0.5), dtype=np.float64) + 0.5
    chances = uniforms(seed, "scenario: arrivals", np.arange(int(total + 10 * total**0.5 + 10)))
    places = np.cumsum(-np.log1p(-chances))
    return places[places < total]


Source = Literal["building", "market", "workload"]
"""where the events of a topic come from: a sample stream, or the generated wide-area workload"""


@dataclass(frozen=True)
class TopicScene:
    """A topic and what happens on it.

    source: see `Source`; sources: of each publisher, for samples; publishers: how many
    rate: of all publishers together; arrivals: how regular
    drift: share of the interests, 0 to 1, that have moved elsewhere by the end (workload)
    shapes: shapes that its messages have one after the other; each has one more property (workload)
    settings: as in `Bus.register`
    """

    name: str
    source: Source
    rate: Curve
    sources: int = 1
    publishers: int = 1
    arrivals: Arrivals = "even"
    drift: float = 0.0
    shapes: int = 1
    settings: Mapping[str, Any] = dataclasses_field(default_factory=dict)


@dataclass(frozen=True)
class Audience:
    """Subscribers that ask for the same.

    count: how many; interests: each has a rectangle of the generated workload as its `where`
    asked: everything else, as in `Bus.subscribe`
    """

    topic: str
    count: int = 1
    interests: bool = False
    asked: Mapping[str, Any] = dataclasses_field(default_factory=dict)

    @property
    def label(self) -> str:
        """What they ask for, in a few words.

        >>> Audience("market", 3, asked={"tolerance": {"close": 0.5}, "where": "close > 10"}).label
        'tolerance close=0.5, where close > 10'
        """
        said = [f"{name} {_format_value(value)}" for name, value in sorted(self.asked.items())]
        return ", ".join([*said, *(["interests"] if self.interests else [])]) or "everything"


@dataclass(frozen=True)
class Scenario:
    """A run: the same seed gives the same events at the same instants.

    duration: seconds of publishing; settle: seconds without an event after which a subscriber is done, at the end
    """

    name: str
    duration: float
    topics: tuple[TopicScene, ...]
    audiences: tuple[Audience, ...]
    seed: int = 0
    settle: float = 1.0


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_format_value(one)}" for name, one in value.items())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


MAX_LENGTH = 1_000_000
MAX_DURATION = 86_400.0
MAX_RATE = 1_000_000.0
MAX_PUBLISHERS = 64
MAX_SUBSCRIBERS = 10_000
MAX_SHAPES = 8
MAX_POINTS = 1_000

_TOP = ("name", "duration", "seed", "settle", "topics", "subscribers")
_TOPIC = ("source", "rate", "sources", "publishers", "arrivals", "drift", "shapes", "settings")
_ASKED = ("tolerance", "default_tolerance", "properties", "sources", "where", "emit", "exact")
_AUDIENCE = ("topic", "count", "interests", *_ASKED)


def read_scenario(text: str) -> Scenario:
    """The scenario that a text tells."""
    if len(text) > MAX_LENGTH:
        raise ScenarioError("the text is above the limit", characters=len(text), limit=MAX_LENGTH)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise ScenarioError(f"not TOML: {problem}") from None
    _known(document, _TOP, "")
    topics = tuple(_topic(name, given) for name, given in _table(document.get("topics"), "topics").items())
    if not topics:
        _refuse("topics", "at least one topic, such as [topics.market]", {})
    scenes = {topic.name: topic for topic in topics}
    audiences = tuple(_audience(at, given, scenes) for at, given in enumerate(_list(document)))
    if sum(audience.count for audience in audiences) > MAX_SUBSCRIBERS:
        _refuse("subscribers", f"at most {MAX_SUBSCRIBERS} in all", sum(audience.count for audience in audiences))
    return Scenario(
        _text(document.get("name", "scenario"), "name"),
        _number(document.get("duration"), "duration", 0.1, MAX_DURATION),
        topics,
        audiences,
        _whole(document.get("seed", 0), "seed", 0, 1 << 62),
        _number(document.get("settle", 1.0), "settle", 0.1, 600.0),
    )


def _topic(name: str, given: Any) -> TopicScene:
    place = f"topics.{name}"
    table = _table(given, place)
    _known(table, _TOPIC, f"{place}.")
    source = _choice(table.get("source"), f"{place}.source", get_args(Source))
    for field in ("drift", "shapes"):
        if field in table and source != "workload":
            _refuse(f"{place}.{field}", 'left out, or the source "workload"', table[field])
    if "sources" in table and source == "workload":
        _refuse(f"{place}.sources", "left out: the generated workload has its regions as sources", table["sources"])
    return TopicScene(
        name,
        source,
        _curve(table.get("rate"), f"{place}.rate"),
        _whole(table.get("sources", 1), f"{place}.sources", 1, 1_000),
        _whole(table.get("publishers", 1), f"{place}.publishers", 1, MAX_PUBLISHERS),
        _choice(table.get("arrivals", "even"), f"{place}.arrivals", get_args(Arrivals)),
        _number(table.get("drift", 0), f"{place}.drift", 0.0, 1.0),
        _whole(table.get("shapes", 1), f"{place}.shapes", 1, MAX_SHAPES),
        _table(table.get("settings", {}), f"{place}.settings"),
    )


def _audience(at: int, given: Any, topics: Mapping[str, TopicScene]) -> Audience:
    place = f"subscribers[{at}]"
    table = _table(given, place)
    _known(table, _AUDIENCE, f"{place}.")
    topic = _choice(table.get("topic"), f"{place}.topic", tuple(topics))
    interests = table.get("interests", False)
    if not isinstance(interests, bool):
        _refuse(f"{place}.interests", "true or false", interests)
    if interests and ("where" in table or topics[topic].source != "workload"):
        _refuse(f"{place}.interests", 'without `where`, on a topic of the source "workload"', interests)
    asked = {name: table[name] for name in _ASKED if name in table}
    return Audience(topic, _whole(table.get("count", 1), f"{place}.count", 1, MAX_SUBSCRIBERS), interests, asked)


def _curve(given: Any, field: str) -> Curve:
    if not isinstance(given, list):
        return Curve(((0.0, _number(given, field, 0.0, MAX_RATE)),))
    pairs = [point for point in given if isinstance(point, list) and len(point) == 2]
    if not pairs or len(pairs) != len(given) or len(pairs) > MAX_POINTS:
        _refuse(field, f"a number, or 1 to {MAX_POINTS} pairs [second, rate]", given)
    points = tuple((_number(at, field, 0.0, MAX_DURATION), _number(rate, field, 0.0, MAX_RATE)) for at, rate in pairs)
    if any(one[0] >= other[0] for one, other in pairwise(points)):
        _refuse(field, "pairs whose seconds ascend", given)
    return Curve(points)


def _list(document: Mapping[str, Any]) -> list[Any]:
    given = document.get("subscribers", [])
    if not isinstance(given, list):
        _refuse("subscribers", "tables such as [[subscribers]]", given)
    return given


def _table(given: Any, field: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        _refuse(field, "a table", given)
    return given


def _text(given: Any, field: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= 100:
        _refuse(field, "a text of 1 to 100 characters", given)
    return given


def _choice(given: Any, field: str, choices: tuple[str, ...]) -> Any:
    if given not in choices:
        _refuse(field, f"one of {', '.join(choices)}", given)
    return given


def _number(given: Any, field: str, lowest: float, highest: float) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
    if not number or not lowest <= given <= highest:
        _refuse(field, f"a number from {lowest:g} to {highest:g}", given)
    return float(given)


def _whole(given: Any, field: str, lowest: int, highest: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not lowest <= given <= highest:
        _refuse(field, f"a whole number from {lowest} to {highest}", given)
    return given


def _known(given: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ScenarioError("unknown field", field=f"{place}{unknown[0]}", choose_from=sorted(known))


def _refuse(field: str, expected: str, given: object) -> NoReturn:
    raise ScenarioError(f"must be {expected}", field=field, given=given)
