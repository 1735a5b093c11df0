"""What a scenario says: topics that change over time, and who subscribes to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from thinwire_lab.workload.scenarios.scenario_curves import Arrivals, Curve

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
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Audience:
    """Subscribers that ask for the same.

    count: how many; interests: each has a rectangle of the generated workload as its `where`
    asked: everything else, as in `Bus.subscribe`
    """

    topic: str
    count: int = 1
    interests: bool = False
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What they ask for, in a few words.

        >>> Audience("market", 3, asked={"tolerance": {"close": 0.5}, "where": "close > 10"}).label
        'tolerance close=0.5, where close > 10'
        """
        said = [f"{name} {_said(value)}" for name, value in sorted(self.asked.items())]
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


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_said(one)}" for name, one in value.items())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
