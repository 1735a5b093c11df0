"""Explanation of an assignment: cost of a topic, effect of its neighbours, and alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinwire.placement.hosts import TopicLoad
from thinwire.placement.latency_model import MonotoneModel
from thinwire.placement.planner import HostAssignment, PlacementPlan

MAX_OTHERS = 200


@dataclass(frozen=True)
class Alternative:
    """Effect of moving a topic to another host.

    worst: the topic with the largest bound relative to its limit; used: that ratio
    """

    host: str
    why: str
    worst: str
    used: float


@dataclass(frozen=True)
class Explanation:
    """Latency of a topic on its host.

    alone, p90, bound: predicted p90 alone on a host, on this host, and with the margin, in seconds
    neighbours: seconds by which the predicted p90 falls without each of the others
    """

    topic: TopicLoad
    host: str
    alone: float
    p90: float
    bound: float
    neighbours: dict[str, float]
    alternatives: tuple[Alternative, ...]

    @property
    def sentences(self) -> list[str]:
        """The explanation as text."""
        t = self.topic
        lines = [
            f"{t.name} is on {self.host}: {t.rate:g} messages/s of {1000 * t.interval:g} ms use {t.load:.2f} cores.",
            f"p90 {1000 * self.p90:.0f} ms predicted, {1000 * self.bound:.0f} ms with the margin, limit "
            f"{1000 * t.promise:.0f} ms; alone on a host {1000 * self.alone:.0f} ms.",
        ]  # fmt: skip
        if self.neighbours:
            name, cost = max(self.neighbours.items(), key=lambda pair: pair[1])
            lines.append(f"of {len(self.neighbours)} neighbours {name} adds most: {1000 * cost:.0f} ms.")
        return lines + [f"on {other.host}: {other.why}" for other in self.alternatives]


def explain(name: str, plan: PlacementPlan, topics: Sequence[TopicLoad], model: MonotoneModel) -> Explanation:
    """Explain the assignment of a topic."""
    assignment, by_name = plan.assignment_of(name), {topic.name: topic for topic in topics}
    here = [by_name[other] for other in assignment.topics]
    own = by_name[name]
    place = assignment.topics.index(name)
    without = {
        other.name: _without(own, other, here, assignment, model, assignment.p90[place])
        for other in here
        if other != own
    }
    others = [
        _alternative(own, other, by_name, plan.k, model)
        for other in plan.assignments[:MAX_OTHERS]
        if other is not assignment
    ]
    alone = float(model.p90([own], assignment.kind)[0])
    return Explanation(
        own, assignment.host, alone, assignment.p90[place], assignment.bounds[place], without, tuple(others)
    )


def _without(
    own: TopicLoad,
    other: TopicLoad,
    here: Sequence[TopicLoad],
    assignment: HostAssignment,
    model: MonotoneModel,
    now: float,
) -> float:
    fewer = [topic for topic in here if topic != other]
    return now - float(model.p90(fewer, assignment.kind)[fewer.index(own)])


def _alternative(
    own: TopicLoad, assignment: HostAssignment, by_name: dict[str, TopicLoad], k: int, model: MonotoneModel
) -> Alternative:
    more = [*(by_name[name] for name in assignment.topics), own]
    used = [float(bound) / topic.promise for bound, topic in zip(model.bound(more, assignment.kind), more, strict=True)]
    worst = max(range(len(more)), key=used.__getitem__)
    ratio = f"{more[worst].name} at {100 * used[worst]:.0f} % of its limit"
    if len(assignment.topics) >= k:
        why = f"it has {len(assignment.topics)} topics, the maximum"
    else:
        why = f"exceeds a limit: {ratio}" if used[worst] > 1 else f"feasible: {ratio}"
    return Alternative(assignment.host, why, more[worst].name, used[worst])
