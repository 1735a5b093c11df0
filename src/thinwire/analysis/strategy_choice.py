"""The comparison of strategies with JSON, their Pareto front, and the strategy for the plan.

A strategy dominates another strategy if it saves at least as much, has no larger error, no more CPU time and no longer
linger, and is better in one of these. The Pareto front is the set of strategies that are not dominated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thinwire.analysis.json_baseline import Baseline
from thinwire.analysis.strategies import AnalysisOutcome, Ranges
from thinwire.errors import ConfigError

CPU_NOISE = 0.25
"""CPU times that differ by less than this share count as equal, because measured times vary"""


@dataclass(frozen=True)
class RatedStrategy:
    """An outcome compared with JSON. A saving is the share of the bytes of JSON that are not sent.

    frame_saving: saving of frames, compared with the JSON text of the events
    link_saving: saving on the sockets, compared with JSON with one message per event
    batched_saving: saving on the sockets, compared with JSON batches of the same linger
    packed_saving: saving on the sockets, compared with the same batches deflated
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
        """CPU seconds per event at both ends."""
        return (self.outcome.publish_cpu or 0.0) + (self.outcome.receive_cpu or 0.0)


@dataclass(frozen=True)
class Goal:
    """Requirements of a plan.

    level: the name of a level; None selects the level after which a larger error saves little more
    max_linger: the longest linger in seconds
    """

    level: str | None = None
    max_linger: float = 0.1


def rate_outcomes(
    outcomes: Iterable[AnalysisOutcome], baselines: Iterable[Baseline], ranges: Ranges
) -> list[RatedStrategy]:
    """Compare the outcomes of one topic with its JSON baselines."""
    by_linger = {baseline.linger: baseline for baseline in baselines}
    return [_rate(outcome, by_linger, ranges) for outcome in outcomes]


def _rate(outcome: AnalysisOutcome, baselines: Mapping[float | None, Baseline], ranges: Ranges) -> RatedStrategy:
    plain, batched, total = baselines[None], baselines[outcome.strategy.linger], outcome.total
    sizes = {name: ranges[name][1] - ranges[name][0] for name in outcome.errors if name in ranges}
    return RatedStrategy(
        outcome,
        frame_saving=1 - total.frame / max(1, plain.raw),
        link_saving=1 - total.link / max(1, plain.link),
        batched_saving=1 - total.link / max(1, batched.link),
        packed_saving=1 - total.link / max(1, batched.deflated_link),
        error=max((outcome.errors[name].worst / size for name, size in sizes.items() if size), default=0.0),
    )


def pareto_front(rated: Sequence[RatedStrategy]) -> list[RatedStrategy]:
    """Return the strategies that are not dominated, the largest saving first."""
    front = [strategy for strategy in rated if not any(_dominates(other, strategy) for other in rated)]
    return sorted(front, key=lambda strategy: -strategy.link_saving)


def choose_strategy(rated: Sequence[RatedStrategy], goal: Goal | None = None) -> RatedStrategy:
    """Return the strategy for a plan: the best of the goal's level, or the knee of saving against error.

    The chosen strategy is on the Pareto front of the strategies that the goal allows.
    """
    goal = goal or Goal()
    allowed = [r for r in rated if r.outcome.strategy.linger <= goal.max_linger and r.outcome.is_guarantee_met]
    if not allowed:
        detail = "no strategy with this linger keeps its bounds: allow a longer linger"
        raise ConfigError(detail, max_linger=goal.max_linger)
    if goal.level is None:
        return _knee(pareto_front(allowed))
    candidates = [r for r in allowed if r.outcome.strategy.level.name == goal.level]
    if not candidates:
        known = sorted({r.outcome.strategy.level.name for r in allowed})
        raise ConfigError("no such level was evaluated", level=goal.level, choose_from=known)
    return max(pareto_front(candidates), key=_rank)


def _rank(rated: RatedStrategy) -> tuple[float, float, float]:
    """Return the sort key: the saving; of equal savings the shorter linger, then the lower CPU time."""
    return round(rated.link_saving, 4), -rated.outcome.strategy.linger, -rated.cpu


def _dominates(one: RatedStrategy, other: RatedStrategy) -> bool:
    costs = [(-r.link_saving, r.error, r.outcome.strategy.linger) for r in (one, other)]
    no_worse = all(a <= b for a, b in zip(*costs, strict=True)) and one.cpu <= other.cpu * (1 + CPU_NOISE)
    better = costs[0] != costs[1] or one.cpu * (1 + CPU_NOISE) < other.cpu
    return no_worse and better


def _knee(rated: Sequence[RatedStrategy]) -> RatedStrategy:
    """Return the strategy after which a larger error saves little more.

    Of the best strategy of each level, it is the farthest above the line from the smallest error to the largest saving.
    """
    by_level: dict[str, list[RatedStrategy]] = {}
    for strategy in rated:
        by_level.setdefault(strategy.outcome.strategy.level.name, []).append(strategy)
    best = [max(group, key=_rank) for group in by_level.values()]
    first, last = min(best, key=lambda r: r.error), max(best, key=_rank)
    rise, run = last.link_saving - first.link_saving, last.error - first.error
    if rise <= 0 or run <= 0:
        return first

    def distance(r: RatedStrategy) -> tuple[float, float]:
        return (r.link_saving - first.link_saving) / rise - (r.error - first.error) / run, -r.error

    return max(best, key=distance)
