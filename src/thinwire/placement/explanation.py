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
    own, here = by_name[name], [by_name[other] for other in assignment.topics]
    place = assignment.topics.index(name)
    p90, bound = assignment.p90[place], assignment.bounds[place]
    alone = float(model.p90([own], assignment.kind)[0])
    neighbours = {}
    for other in here:
        if other != own:
            fewer = [topic for topic in here if topic != other]
            neighbours[other.name] = p90 - float(model.p90(fewer, assignment.kind)[fewer.index(own)])
    alternatives = tuple(
        _alternative(host, [*(by_name[other] for other in host.topics), own], plan.k, model)
        for host in plan.assignments[:MAX_OTHERS]
        if host is not assignment
    )
    return Explanation(own, assignment.host, alone, p90, bound, neighbours, alternatives)


def _alternative(assignment: HostAssignment, topics: Sequence[TopicLoad], k: int, model: MonotoneModel) -> Alternative:
    """Return the effect of adding a topic to a host; `topics` includes it."""
    bounds = model.bound(topics, assignment.kind).tolist()
    used, worst = max(
        ((bound / topic.promise, topic.name) for bound, topic in zip(bounds, topics, strict=True)),
        key=lambda pair: pair[0],
    )
    if len(topics) > k:
        why = f"it has {len(topics) - 1} topics, the maximum"
    else:
        why = f"{'exceeds a limit' if used > 1 else 'feasible'}: {worst} at {100 * used:.0f} % of its limit"
    return Alternative(assignment.host, why, worst, used)
