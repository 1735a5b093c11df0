"""Scenarios: topics that change over time and their subscribers, read from TOML.

Due times of events depend on the rate only, not on the duration of any operation. A publisher that falls behind is late
for all events that become due until it has caught up.

>>> RateCurve(((0.0, 0.0), (10.0, 4.0))).instants(10.0).round(2).tolist()[:4]
[1.58, 2.74, 3.54, 4.18]
>>> len(RateCurve(((0.0, 100.0),)).instants(2.0))
200

Errors name the field.

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
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclasses_field
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NoReturn, get_args

import numpy as np

from thinwire_lab.errors import ScenarioError
from thinwire_lab.workload.random_rows import Floats, uniforms

Arrivals = Literal["even", "random"]
"""even: at regular intervals; random: independent of each other (Poisson)"""

MAX_EVENTS = 50_000_000


@dataclass(frozen=True)
class RateCurve:
    """Events per second: points (second, rate) joined by lines, constant before the first and after the last."""

    points: tuple[tuple[float, float], ...]

    def rate(self, second: float) -> float:
        """Return the rate at a second."""
        return float(np.interp(second, *np.array(self.points).T))

    def instants(self, duration: float, arrivals: Arrivals = "even", seed: int = 0) -> Floats:
        """Return the due times of events within a duration, ascending."""
        knots, due = self._knots(duration)
        total = float(due[-1])
        if total > MAX_EVENTS:
            raise ScenarioError("more events than a run supports", field="rate", events=round(total), limit=MAX_EVENTS)
        return self._inverse(knots, due, _arrival_numbers(total, arrivals, seed))

    def _knots(self, duration: float) -> tuple[Floats, Floats]:
        """Return the seconds between which the rate is linear, and the number of events due by each."""
        inner = [second for second, _ in self.points if 0 < second < duration]
        knots = np.array([0.0, *inner, duration])
        rates = np.array([self.rate(second) for second in knots])
        due = (rates[1:] + rates[:-1]) / 2 * np.diff(knots)
        return knots, np.concatenate([[0.0], np.cumsum(due)])

    def _inverse(self, knots: Floats, due: Floats, numbers: Floats) -> Floats:
        """Return the seconds by which these numbers of events are due; solves a quadratic equation without
        cancellation."""
        part = np.clip(np.searchsorted(due, numbers, side="left") - 1, 0, len(knots) - 2)
        rates = np.array([self.rate(at) for at in knots])
        first, width = rates[part], np.diff(knots)[part]
        slope = (rates[part + 1] - first) / width
        remaining = numbers - due[part]
        root = np.sqrt(np.maximum(first * first + 2 * slope * remaining, 0.0))
        return np.asarray(
            knots[part] + np.minimum(2 * remaining / np.maximum(first + root, np.finfo(float).tiny), width)
        )


def _arrival_numbers(total: float, arrivals: Arrivals, seed: int) -> Floats:
    """Return the number of events due up to each event."""
    if arrivals == "even":
        return np.arange(int(total + 0.5), dtype=np.float64) + 0.5
    random = uniforms(seed, "scenario: arrivals", np.arange(int(total + 10 * total**0.5 + 10)))
    numbers = np.cumsum(-np.log1p(-random))
    return numbers[numbers < total]


Source = Literal["building", "market", "workload"]
"""source of the events of a topic: a sample stream, or the generated wide-area workload"""


@dataclass(frozen=True)
class ScenarioTopic:
    """A topic of a scenario.

    source: see `Source`; sources: number of sources per publisher, for samples; publishers: number of publishers
    rate: of all publishers together; arrivals: distribution of due times
    drift: share of the events, 0 to 1, that are drawn with exchanged topics at the end (workload)
    shapes: number of successive schema versions; each has one more property (workload)
    settings: as in `Bus.register`
    """

    name: str
    source: Source
    rate: RateCurve
    sources: int = 1
    publishers: int = 1
    arrivals: Arrivals = "even"
    drift: float = 0.0
    shapes: int = 1
    settings: Mapping[str, Any] = dataclasses_field(default_factory=dict)


@dataclass(frozen=True)
class Audience:
    """Subscribers with the same options.

    count: number of subscribers; interests: each has a rectangle of the generated workload as its `where`
    options: all other options, as in `Bus.subscribe`
    """

    topic: str
    count: int = 1
    interests: bool = False
    options: Mapping[str, Any] = dataclasses_field(default_factory=dict)

    @property
    def label(self) -> str:
        """Summary of the options.

        >>> Audience("market", 3, options={"tolerance": {"close": 0.5}, "where": "close > 10"}).label
        'tolerance close=0.5, where close > 10'
        """
        parts = [f"{name} {_format_value(value)}" for name, value in sorted(self.options.items())]
        return ", ".join([*parts, *(["interests"] if self.interests else [])]) or "everything"


@dataclass(frozen=True)
class Scenario:
    """A scenario. The same seed gives the same events at the same times.

    duration: seconds of publishing; settle: seconds without an event after which the run ends
    """

    name: str
    duration: float
    topics: tuple[ScenarioTopic, ...]
    audiences: tuple[Audience, ...]
    seed: int = 0
    settle: float = 1.0


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_format_value(item)}" for name, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


MAX_LENGTH = 1_000_000
MAX_DURATION = 86_400.0
MAX_RATE = 1_000_000.0
MAX_PUBLISHERS = 64
MAX_SUBSCRIBERS = 10_000
MAX_SHAPES = 8
MAX_POINTS = 1_000

Check = Callable[[Any, str], Any]
"""returns the value of a field, or raises an error with the path of the field"""


def read_scenario(text: str) -> Scenario:
    """Return the scenario of a TOML text."""
    if len(text) > MAX_LENGTH:
        raise ScenarioError("the text exceeds the limit", characters=len(text), limit=MAX_LENGTH)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise ScenarioError(f"not TOML: {problem}") from None
    fields = _read_fields(document, "", _SCENARIO, required=("topics", "duration"))
    topics = {name: _read_topic(name, value) for name, value in fields.pop("topics").items()}
    if not topics:
        _refuse("topics", "at least one topic, such as [topics.market]", {})
    tables = enumerate(fields.pop("subscribers", []))
    audiences = tuple(_read_audience(f"subscribers[{index}]", value, topics) for index, value in tables)
    if sum(audience.count for audience in audiences) > MAX_SUBSCRIBERS:
        _refuse("subscribers", f"at most {MAX_SUBSCRIBERS} in total", sum(audience.count for audience in audiences))
    return Scenario(**{"name": "scenario", **fields}, topics=tuple(topics.values()), audiences=audiences)


def _read_topic(name: str, value: Any) -> ScenarioTopic:
    path = f"topics.{name}"
    fields = _read_fields(_table(value, path), f"{path}.", _TOPIC, required=("source", "rate"))
    is_workload = fields["source"] == "workload"
    for field in ("drift", "shapes"):
        if field in fields and not is_workload:
            _refuse(f"{path}.{field}", 'left out, or the source "workload"', fields[field])
    if "sources" in fields and is_workload:
        _refuse(f"{path}.sources", "left out: the generated workload has its regions as sources", fields["sources"])
    return ScenarioTopic(name, **fields)


def _read_audience(path: str, value: Any, topics: Mapping[str, ScenarioTopic]) -> Audience:
    checks: dict[str, Check] = {"topic": partial(_choice, choices=topics), **_AUDIENCE}
    fields = _read_fields(_table(value, path), f"{path}.", checks, required=("topic",))
    options = {name: fields.pop(name) for name in _OPTIONS if name in fields}
    if fields.get("interests") and ("where" in options or topics[fields["topic"]].source != "workload"):
        _refuse(f"{path}.interests", 'without `where`, on a topic of the source "workload"', True)
    return Audience(**fields, options=options)


def _read_fields(table: Mapping[str, Any], prefix: str, checks: Mapping[str, Check], required: Collection[str]) -> Any:
    """Return the checked fields of a table by name, without optional ones that are missing."""
    unknown = sorted(table.keys() - checks.keys())
    if unknown:
        raise ScenarioError("unknown field", field=f"{prefix}{unknown[0]}", choose_from=sorted(checks))
    present = {name: check for name, check in checks.items() if name in table or name in required}
    return {name: check(table.get(name), f"{prefix}{name}") for name, check in present.items()}


def _number(value: Any, field: str, lowest: float, highest: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not lowest <= value <= highest:
        _refuse(field, f"a number from {lowest:g} to {highest:g}", value)
    return float(value)


def _integer(value: Any, field: str, lowest: int, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        _refuse(field, f"an integer from {lowest} to {highest}", value)
    return value


def _choice(value: Any, field: str, choices: Collection[str]) -> Any:
    if value not in choices:
        _refuse(field, f"one of {', '.join(choices)}", value)
    return value


def _instance(value: Any, field: str, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        _refuse(field, expected, value)
    return value


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        _refuse(field, "a text of 1 to 100 characters", value)
    return value


def _curve(value: Any, field: str) -> RateCurve:
    if not isinstance(value, list):
        return RateCurve(((0.0, _number(value, field, 0.0, MAX_RATE)),))
    pairs = [point for point in value if isinstance(point, list) and len(point) == 2]
    if not pairs or len(pairs) != len(value) or len(pairs) > MAX_POINTS:
        _refuse(field, f"a number, or 1 to {MAX_POINTS} pairs [second, rate]", value)
    points = tuple(
        (_number(second, field, 0.0, MAX_DURATION), _number(rate, field, 0.0, MAX_RATE)) for second, rate in pairs
    )
    if any(point[0] >= following[0] for point, following in pairwise(points)):
        _refuse(field, "pairs whose seconds ascend", value)
    return RateCurve(points)


def _refuse(field: str, expected: str, value: object) -> NoReturn:
    raise ScenarioError(f"must be {expected}", field=field, given=value)


_table = partial(_instance, kind=dict, expected="a table")
_OPTIONS = ("tolerance", "default_tolerance", "properties", "sources", "where", "emit", "exact")
"""arguments of `Bus.subscribe`, which checks them"""
_SCENARIO: dict[str, Check] = {
    "topics": _table,
    "subscribers": partial(_instance, kind=list, expected="tables such as [[subscribers]]"),
    "name": _text,
    "duration": partial(_number, lowest=0.1, highest=MAX_DURATION),
    "seed": partial(_integer, lowest=0, highest=1 << 62),
    "settle": partial(_number, lowest=0.1, highest=600.0),
}
_TOPIC: dict[str, Check] = {
    "source": partial(_choice, choices=get_args(Source)),
    "rate": _curve,
    "sources": partial(_integer, lowest=1, highest=1_000),
    "publishers": partial(_integer, lowest=1, highest=MAX_PUBLISHERS),
    "arrivals": partial(_choice, choices=get_args(Arrivals)),
    "drift": partial(_number, lowest=0.0, highest=1.0),
    "shapes": partial(_integer, lowest=1, highest=MAX_SHAPES),
    "settings": _table,
}
_AUDIENCE: dict[str, Check] = {
    "count": partial(_integer, lowest=1, highest=MAX_SUBSCRIBERS),
    "interests": partial(_instance, kind=bool, expected="true or false"),
    **dict.fromkeys(_OPTIONS, lambda value, field: value),
}
