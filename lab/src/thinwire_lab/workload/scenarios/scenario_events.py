"""The events of a topic in a scenario, one publisher at a time, in the order in which they are due.

Sample streams go on as they do alone. Events of the generated workload are points in the event space. Each comes from
a region, where those live who care for its interest, and carries a value that wanders slowly, region by region. What
is of interest drifts: by and by a share of the events comes of interests that have changed places with others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from thinwire.demo import building
from thinwire.schema import Property, Schema
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.random_rows import Floats, Rows, normals, uniforms
from thinwire_lab.workload.recipe import EventSource, Recipe, WorkloadPlan
from thinwire_lab.workload.samples import market
from thinwire_lab.workload.scenarios.scenario import TopicScene

BLOCK = 4_096
"""events drawn at once"""
LANE = 1 << 40
"""rows of each publisher's own"""
SWING, DAY, STEP = 5.0, 600.0, 0.05
"""of a value: how far it swings, in how many seconds, and how far it wanders in an event"""

_SAMPLES = {"building": building, "market": market}
_DETAILS = ("nothing to report", "as forecast", "revised upwards", "revised downwards", "provisional", "confirmed")


def schema_of(scene: TopicScene, shape: int = 1) -> Schema:
    """The schema of a topic while its messages have this shape, from 1 on."""
    if scene.source != "workload":
        return Schema(scene.name, list(_SAMPLES[scene.source].schema()))
    axes = [
        Property(f"{axis.name}_at", "number", step="0.000001", minimum=0, maximum=1) for axis in builtin().members.axes
    ]
    details = [Property(f"detail_{number}", "string") for number in range(1, shape)]
    head = [Property("time", "timestamp", "header", form="epoch", step=1), Property("region", "string", "dimension")]
    return Schema(scene.name, [*head, *axes, Property("value", "number", step="0.01"), *details], shape)


def events_of(
    scene: TopicScene, instants: Floats, duration: float, seed: int, publisher: int
) -> Iterator[dict[str, Any]]:
    """The events that a publisher has due at these instants."""
    if scene.source == "workload":
        return ScenarioPopulation(scene, duration, seed, publisher).events(instants)
    made: Iterator[dict[str, Any]] = _SAMPLES[scene.source].events(
        len(instants), seed, scene.sources, first=publisher * scene.sources
    )
    return made


def shape_at(scene: TopicScene, instant: float, duration: float) -> int:
    """The shape that messages have at an instant, from 1 on."""
    return 1 + min(scene.shapes - 1, int(scene.shapes * instant / duration))


def interests_of(count: int, seed: int) -> list[str]:
    """The interests of so many subscribers of the generated workload, as predicates."""
    plan = WorkloadPlan(builtin(), Recipe(subscriptions=count, events=0, brokers=1, seed=seed))
    table = plan.subscriptions(np.arange(count, dtype=np.int64))
    names = [axis.name for axis in plan.axes]
    ends = [table.column(f"{name}_{end}").to_pylist() for name in names for end in ("low", "high")]
    sides = " and ".join(f"{name}_at between {{:.6f}} and {{:.6f}}" for name in names)
    return [sides.format(*corner) for corner in zip(*ends, strict=True)]


class ScenarioPopulation:
    """The events of one publisher of the generated workload."""

    def __init__(self, scene: TopicScene, duration: float, seed: int, publisher: int) -> None:
        self.scene = scene
        self.duration = duration
        self.seed = seed
        self.publisher = publisher
        self._members, self._now = _population(seed)
        self._later = _moved_on(seed)
        self._names = [f"{axis.name}_at" for axis in self._members.axes]
        self._values = np.zeros(len(self._members.regions))

    def events(self, instants: Floats) -> Iterator[dict[str, Any]]:
        """An event for each instant."""
        for first in range(0, len(instants), BLOCK):
            yield from self._block(instants[first : first + BLOCK], first)

    def _block(self, instants: Floats, first: int) -> Iterator[dict[str, Any]]:
        rows = np.arange(first, first + len(instants), dtype=np.int64) + LANE * self.publisher
        share = self.scene.drift * instants / self.duration
        late = uniforms(self.seed, "scenario: drift", rows) < share
        points = np.where(late[:, None], self._later.draw(rows), self._now.draw(rows)).round(6)
        nodes = [
            np.where(late, *both) for both in zip(self._later.interests(rows), self._now.interests(rows), strict=True)
        ]
        regions = self._regions(tuple(nodes), rows)
        wanders = normals(self.seed, "scenario: value", rows, 1)[:, 0] * STEP
        for at, instant in enumerate(instants.tolist()):
            region = int(regions[at])
            self._values[region] += wanders[at]
            values = dict(zip(self._names, points[at].tolist(), strict=True))
            yield self._event(instant, region, values, int(rows[at]))

    def _event(self, instant: float, region: int, values: Mapping[str, float], row: int) -> dict[str, Any]:
        swing = SWING * np.sin(2 * np.pi * (instant / DAY + region / len(self._values)))
        shape = shape_at(self.scene, instant, self.duration)
        return {
            "time": round(1e6 * instant),
            "region": self._members.regions[region],
            **values,
            "value": round(float(20.0 + swing + self._values[region]), 2),
            **{f"detail_{n}": _DETAILS[(row // 7 + n) % len(_DETAILS)] for n in range(1, shape)},
        }

    def _regions(self, nodes: tuple[Rows, ...], rows: Rows) -> Rows:
        """Where events come from: a region is as likely as its share of those who care, or of all where nobody does."""
        shares = self._members.counts[nodes]
        shares = np.where(shares.sum(axis=1, keepdims=True) > 0, shares, self._members.mix)
        ends = np.cumsum(shares, axis=1)
        at = uniforms(self.seed, "scenario: region", rows) * ends[:, -1]
        places = (ends <= at[:, None]).sum(axis=1)
        return np.asarray(np.minimum(places, ends.shape[1] - 1), dtype=np.int64)


@cache
def _population(seed: int) -> tuple[Interests, EventSource]:
    summary = builtin()
    return summary.members, EventSource(summary.members.axes, summary.rates, seed)


@cache
def _moved_on(seed: int) -> EventSource:
    """The same interests after some have changed places along the first axis."""
    summary = builtin()
    leaves = summary.members.axes[0].leaves
    order = np.argsort(uniforms(seed, "scenario: places", np.arange(len(leaves))), kind="stable")
    rates = summary.rates.copy()
    rates[leaves] = summary.rates[leaves[order]]
    return EventSource(summary.members.axes, rates, seed)
