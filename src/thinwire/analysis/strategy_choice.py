"""Which strategies are worth a thought, and which one a plan takes.

A strategy is dominated where another saves at least as much, is off by no more, costs no more processor time and lets
events wait no longer, and is better in one of these. The others are the front.

Strategies and outcomes as plain JSON values and back, for cells that run elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from thinwire.analysis.json_baseline import Baseline
from thinwire.analysis.property_cost import PropertyCost
from thinwire.analysis.strategies import AnalysisOutcome, Bytes, Level, Ranges, Strategy
from thinwire.errors import ConfigError
from thinwire.ledger import Row
from thinwire.ledger.row_document import from_document, to_document

CPU_GRAIN = 0.25
"""processor times that differ by less than this share count as equal: they are measured, not counted"""


@dataclass(frozen=True)
class Judged:
    """An outcome against JSON.

    frame_saving: share of the events' JSON that the frames save; link_saving: of the bytes on the sockets, against a
    message an event; batched_saving: against JSON batched with the same linger; packed_saving: the same, deflated
    error: the largest error of any property as a share of its range
    """

    outcome: AnalysisOutcome
    frame_saving: float
    link_saving: float
    batched_saving: float
    packed_saving: float
    error: float

    @property
    def name(self) -> str:
        return self.outcome.strategy.name

    @property
    def cpu(self) -> float:
        """Processor seconds an event, both ends."""
        return (self.outcome.publish_cpu or 0.0) + (self.outcome.receive_cpu or 0.0)


@dataclass(frozen=True)
class Goal:
    """What is wanted: the name of a level, or the knee where it is None; and how long events may wait, in seconds."""

    level: str | None = None
    max_linger: float = 0.1


def judge(outcomes: Iterable[AnalysisOutcome], baselines: Iterable[Baseline], ranges: Ranges) -> list[Judged]:
    """Outcomes of one topic against its baselines."""
    plain = {one.linger: one for one in baselines}
    return [_judged(one, plain[None], plain[one.strategy.linger], ranges) for one in outcomes]


def pareto(judged: Sequence[Judged]) -> list[Judged]:
    """The front, by falling saving."""
    front = [one for one in judged if not any(_dominates(other, one) for other in judged)]
    return sorted(front, key=lambda one: -one.link_saving)


def choose(judged: Sequence[Judged], goal: Goal | None = None) -> Judged:
    """The strategy to plan with: the best at the level asked for, else the knee of saving against error."""
    goal = goal or Goal()
    swift = [one for one in judged if one.outcome.strategy.linger <= goal.max_linger and one.outcome.kept]
    if not swift:
        raise ConfigError("no strategy keeps its promise within this linger", max_linger=goal.max_linger)
    if goal.level is None:
        return _knee(swift)
    asked = [one for one in swift if one.outcome.strategy.level.name == goal.level]
    if not asked:
        known = sorted({one.outcome.strategy.level.name for one in swift})
        raise ConfigError("no such level was evaluated", level=goal.level, choose_from=known)
    return max(asked, key=_rank)


def _judged(outcome: AnalysisOutcome, plain: Baseline, batched: Baseline, ranges: Ranges) -> Judged:
    total = outcome.total
    spans = (
        (error.worst, ranges[name][1] - ranges[name][0]) for name, error in outcome.errors.items() if name in ranges
    )
    return Judged(
        outcome,
        frame_saving=1 - total.frame / max(1, plain.raw),
        link_saving=1 - total.link / max(1, plain.link),
        batched_saving=1 - total.link / max(1, batched.link),
        packed_saving=1 - total.link / max(1, batched.deflated_link),
        error=max((worst / span for worst, span in spans if span), default=0.0),
    )


def _rank(one: Judged) -> tuple[float, float, float]:
    """More saving first; of equals the one that costs and waits less."""
    return round(one.link_saving, 4), -one.outcome.strategy.linger, -one.cpu


def _dominates(one: Judged, other: Judged) -> bool:
    costs = [(-j.link_saving, j.error, j.outcome.strategy.linger) for j in (one, other)]
    no_worse = all(a <= b for a, b in zip(*costs, strict=True)) and one.cpu <= other.cpu * (1 + CPU_GRAIN)
    better = costs[0] != costs[1] or one.cpu * (1 + CPU_GRAIN) < other.cpu
    return no_worse and better


def _knee(judged: Sequence[Judged]) -> Judged:
    """Where giving up more exactness begins to save little: the point farthest above the line between the ends."""
    best = [max(group, key=_rank) for group in _by_level(judged)]
    first, last = min(best, key=lambda one: one.error), max(best, key=_rank)
    rise, run = last.link_saving - first.link_saving, last.error - first.error
    if rise <= 0 or run <= 0:
        return first

    def above(one: Judged) -> tuple[float, float]:
        return (one.link_saving - first.link_saving) / rise - (one.error - first.error) / run, -one.error

    return max(best, key=above)


def _by_level(judged: Sequence[Judged]) -> list[list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for one in judged:
        groups.setdefault(one.outcome.strategy.level.name, []).append(one)
    return list(groups.values())


_BYTES = ("start", "running", "end")


def strategy_out(strategy: Strategy) -> dict[str, Any]:
    """A strategy as a document.

    >>> strategy_in(strategy_out(Strategy(linger=0.1))) == Strategy(linger=0.1)
    True
    """
    return asdict(strategy)


def strategy_in(document: Mapping[str, Any]) -> Strategy:
    """The strategy of a document."""
    level = document["level"]
    asked = tuple((name, value) for name, value in level["asked"])
    return Strategy(**{**document, "level": Level(level["name"], level["share"], asked)})


def outcome_out(outcome: AnalysisOutcome) -> dict[str, Any]:
    """An outcome as a document."""
    plain = {f.name: getattr(outcome, f.name) for f in fields(AnalysisOutcome)}
    return {
        **plain,
        "strategy": strategy_out(outcome.strategy),
        **{name: asdict(plain[name]) for name in _BYTES},
        "errors": to_document(Row("analyze", outcome.topic, errors=dict(outcome.errors))),
    }


def outcome_in(document: Mapping[str, Any]) -> AnalysisOutcome:
    """The outcome of a document."""
    parts = {name: Bytes(**document[name]) for name in _BYTES}
    strategy, errors = strategy_in(document["strategy"]), from_document(document["errors"]).errors
    return AnalysisOutcome(**{**document, **parts, "strategy": strategy, "errors": errors})


def baseline_in(document: Mapping[str, Any]) -> Baseline:
    """The baseline of a document that `asdict` made."""
    return Baseline(**document)


def cost_in(document: Mapping[str, Any]) -> PropertyCost:
    """The cost of a document that `asdict` made."""
    return PropertyCost(**document)
