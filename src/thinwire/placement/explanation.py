"""Why a topic is where it is: what it costs, what its neighbours add, and what would happen elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinwire.placement.hosts import TopicLoad
from thinwire.placement.latency_model import Rising
from thinwire.placement.planner import HostAssignment, PlacementPlan

MAX_OTHERS = 200


@dataclass(frozen=True)
class Elsewhere:
    """What would happen on another host.

    worst: the topic nearest to its promise there, or furthest beyond it; used: its bound as a share of its promise
    """

    host: str
    why: str
    worst: str
    used: float


@dataclass(frozen=True)
class Explanation:
    """Why a topic is where it is.

    alone, p90, bound: with a host to itself, expected here, and here with the margin, in seconds
    neighbours: by how many seconds the expected p90 falls without each of the others
    """

    topic: TopicLoad
    host: str
    alone: float
    p90: float
    bound: float
    neighbours: dict[str, float]
    elsewhere: tuple[Elsewhere, ...]

    @property
    def sentences(self) -> list[str]:
        """The same for people."""
        t = self.topic
        told = [
            f"{t.name} is on {self.host}: {t.rate:g} messages/s of {1000 * t.interval:g} ms use {t.load:.2f} cores.",
            f"p90 {1000 * self.p90:.0f} ms expected, {1000 * self.bound:.0f} ms with the margin, promised "
            f"{1000 * t.promise:.0f} ms; alone it would be {1000 * self.alone:.0f} ms.",
        ]  # fmt: skip
        if self.neighbours:
            name, cost = max(self.neighbours.items(), key=lambda pair: pair[1])
            told.append(f"of {len(self.neighbours)} neighbours {name} costs it most: {1000 * cost:.0f} ms.")
        return told + [f"on {other.host}: {other.why}" for other in self.elsewhere]


def explain(name: str, plan: PlacementPlan, topics: Sequence[TopicLoad], model: Rising) -> Explanation:
    """Why the topic of this name is where it is."""
    seat, by_name = plan.seat(name), {topic.name: topic for topic in topics}
    here = [by_name[other] for other in seat.topics]
    own = by_name[name]
    place = seat.topics.index(name)
    without = {other.name: _without(own, other, here, seat, model, seat.p90[place]) for other in here if other != own}
    others = [_there(own, other, by_name, plan.k, model) for other in plan.seats[:MAX_OTHERS] if other is not seat]
    alone = float(model.p90([own], seat.kind)[0])
    return Explanation(own, seat.host, alone, seat.p90[place], seat.bounds[place], without, tuple(others))


def _without(
    own: TopicLoad, other: TopicLoad, here: Sequence[TopicLoad], seat: HostAssignment, model: Rising, now: float
) -> float:
    fewer = [topic for topic in here if topic != other]
    return now - float(model.p90(fewer, seat.kind)[fewer.index(own)])


def _there(own: TopicLoad, seat: HostAssignment, by_name: dict[str, TopicLoad], k: int, model: Rising) -> Elsewhere:
    more = [*(by_name[name] for name in seat.topics), own]
    used = [float(bound) / topic.promise for bound, topic in zip(model.bound(more, seat.kind), more, strict=True)]
    worst = max(range(len(more)), key=used.__getitem__)
    tells = f"{more[worst].name} at {100 * used[worst]:.0f} % of its promise"
    if len(seat.topics) >= k:
        why = f"it has {len(seat.topics)} topics already, the most allowed"
    else:
        why = f"would break a promise: {tells}" if used[worst] > 1 else f"would hold: {tells}"
    return Elsewhere(seat.host, why, more[worst].name, used[worst])
