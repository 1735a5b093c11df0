"""Events of one publisher of a scenario topic, in the order of their due times.

Sample streams are used unchanged. Events of the generated workload are points of the event space. An event comes from a
region, in proportion to the subscribers of its interest, and has a value that varies slowly by region. Interests drift:
a growing share of the events is drawn with topics exchanged.
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
from thinwire_lab.workload.random_rows import Floats, Ints, normals, uniforms
from thinwire_lab.workload.recipe import EventSource, Recipe, WorkloadPlan
from thinwire_lab.workload.samples import market
from thinwire_lab.workload.scenarios.scenario import ScenarioTopic

BLOCK = 4_096
"""events drawn at once"""
PUBLISHER_ROWS = 1 << 40
"""row numbers reserved for each publisher"""
SWING, DAY, STEP = 5.0, 600.0, 0.05
"""amplitude of values, its period in seconds, and standard deviation of the random walk per event"""

_SAMPLES = {"building": building, "market": market}
_DETAILS = ("nothing to report", "as forecast", "revised upwards", "revised downwards", "provisional", "confirmed")


def schema_of(topic: ScenarioTopic, version: int = 1) -> Schema:
    """Return a version of the schema of a topic, from 1."""
    if topic.source != "workload":
        return Schema(topic.name, list(_SAMPLES[topic.source].schema()))
    axes = [
        Property(f"{axis.name}_at", "number", step="0.000001", minimum=0, maximum=1) for axis in builtin().members.axes
    ]
    details = [Property(f"detail_{number}", "string") for number in range(1, version)]
    head = [Property("time", "timestamp", "header", form="epoch", step=1), Property("region", "string", "dimension")]
    return Schema(topic.name, [*head, *axes, Property("value", "number", step="0.01"), *details], version)


def events_of(
    topic: ScenarioTopic, due_times: Floats, duration: float, seed: int, publisher: int
) -> Iterator[dict[str, Any]]:
    """Return the events of a publisher at these due times."""
    if topic.source == "workload":
        return WorkloadEvents(topic, duration, seed, publisher).events(due_times)
    events: Iterator[dict[str, Any]] = _SAMPLES[topic.source].events(
        len(due_times), seed, topic.sources, first=publisher * topic.sources
    )
    return events


def schema_version_at(topic: ScenarioTopic, due_time: float, duration: float) -> int:
    """Return the schema version at a time, from 1."""
    return 1 + min(topic.shapes - 1, int(topic.shapes * due_time / duration))


def subscriber_predicates(count: int, seed: int) -> list[str]:
    """Return the rectangles of subscribers of the generated workload, as predicates."""
    plan = WorkloadPlan(builtin(), Recipe(subscriptions=count, events=0, brokers=1, seed=seed))
    rows = plan.subscriptions(np.arange(count, dtype=np.int64))
    names = [axis.name for axis in plan.axes]
    ends = [rows.column(f"{name}_{end}").to_pylist() for name in names for end in ("low", "high")]
    template = " and ".join(f"{name}_at between {{:.6f}} and {{:.6f}}" for name in names)
    return [template.format(*corner) for corner in zip(*ends, strict=True)]


class WorkloadEvents:
    """The events of one publisher of the generated workload."""

    def __init__(self, topic: ScenarioTopic, duration: float, seed: int, publisher: int) -> None:
        self.topic = topic
        self.duration = duration
        self.seed = seed
        self.publisher = publisher
        self._members, self._source = _population(seed)
        self._drifted_source = _permuted_source(seed)
        self._names = [f"{axis.name}_at" for axis in self._members.axes]
        self._values = np.zeros(len(self._members.regions))

    def events(self, due_times: Floats) -> Iterator[dict[str, Any]]:
        """Yield one event per due time."""
        for first in range(0, len(due_times), BLOCK):
            yield from self._block(due_times[first : first + BLOCK], first)

    def _block(self, due_times: Floats, first: int) -> Iterator[dict[str, Any]]:
        rows = np.arange(first, first + len(due_times), dtype=np.int64) + PUBLISHER_ROWS * self.publisher
        share = self.topic.drift * due_times / self.duration
        has_drifted = uniforms(self.seed, "scenario: drift", rows) < share
        points = np.where(has_drifted[:, None], self._drifted_source.draw(rows), self._source.draw(rows)).round(6)
        nodes = [
            np.where(has_drifted, *drawn)
            for drawn in zip(self._drifted_source.interests(rows), self._source.interests(rows), strict=True)
        ]
        regions = self._regions(tuple(nodes), rows)
        changes = normals(self.seed, "scenario: value", rows, 1)[:, 0] * STEP
        for index, due_time in enumerate(due_times.tolist()):
            region = int(regions[index])
            self._values[region] += changes[index]
            values = dict(zip(self._names, points[index].tolist(), strict=True))
            yield self._event(due_time, region, values, int(rows[index]))

    def _event(self, due_time: float, region: int, values: Mapping[str, float], row: int) -> dict[str, Any]:
        swing = SWING * np.sin(2 * np.pi * (due_time / DAY + region / len(self._values)))
        version = schema_version_at(self.topic, due_time, self.duration)
        return {
            "time": round(1e6 * due_time),
            "region": self._members.regions[region],
            **values,
            "value": round(float(20.0 + swing + self._values[region]), 2),
            **{f"detail_{n}": _DETAILS[(row // 7 + n) % len(_DETAILS)] for n in range(1, version)},
        }

    def _regions(self, nodes: tuple[Ints, ...], rows: Ints) -> Ints:
        """Return the regions of events, in proportion to the subscribers of the interest, or to all if it has none."""
        shares = self._members.counts[nodes]
        shares = np.where(shares.sum(axis=1, keepdims=True) > 0, shares, self._members.mix)
        ends = np.cumsum(shares, axis=1)
        positions = uniforms(self.seed, "scenario: region", rows) * ends[:, -1]
        regions = (ends <= positions[:, None]).sum(axis=1)
        return np.asarray(np.minimum(regions, ends.shape[1] - 1), dtype=np.int64)


@cache
def _population(seed: int) -> tuple[Interests, EventSource]:
    summary = builtin()
    return summary.members, EventSource(summary.members.axes, summary.rates, seed)


@cache
def _permuted_source(seed: int) -> EventSource:
    """Return the same interests with topics exchanged."""
    summary = builtin()
    leaves = summary.members.axes[0].leaves
    order = np.argsort(uniforms(seed, "scenario: places", np.arange(len(leaves))), kind="stable")
    rates = summary.rates.copy()
    rates[leaves] = summary.rates[leaves[order]]
    return EventSource(summary.members.axes, rates, seed)
