"""What a round came to, and whether the chain held the rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thinwire_lab.live.process_measurement import dense, quantile
from thinwire_lab.live.process_measurement_sampling import Sample, Sampler, cores_used, growth, others, together

P99 = 250.0
"""milliseconds from the instant an event was meant to be sent to its subscriber"""
GROWTH = 0.05
BROKER = "broker"
MEMORY_FROM = 30
"""samples a round must have before growth of memory says anything"""


@dataclass(frozen=True)
class Outcome:
    """One rate held, or not, for some seconds.

    rate: events a second of all publishers together
    sent: events that travelled; lost: events that a subscriber should have been handed and was not
    p50, p99: milliseconds, over all subscribers; series: what the processes used meanwhile
    others: cores that something else on the machine used meanwhile
    """

    rate: float
    seconds: float
    events: int
    sent: int
    lost: int
    p50: float
    p99: float
    series: Mapping[str, list[Sample]] = field(default_factory=dict, repr=False)
    others: float = 0.0

    @property
    def sent_share(self) -> float:
        return self.sent / self.events

    @property
    def grown(self) -> float | None:
        """The largest growth of a process or of all of them together; None where the round was too short to tell.

        The broker counts with the others only: it fills its caches for minutes, up to some tens of megabytes, whatever
        is sent through it.
        """
        long_enough = {name: samples for name, samples in self.series.items() if len(samples) >= MEMORY_FROM}
        ours = [samples for name, samples in long_enough.items() if name != BROKER]
        return max(map(growth, [*ours, together(long_enough)])) if long_enough else None

    @property
    def cpu(self) -> dict[str, float]:
        """Cores used, by role."""
        shares: dict[str, float] = {}
        for name, cores in cores_used(self.series).items():
            role = name.partition(" ")[0]
            shares[role] = shares.get(role, 0.0) + cores
        return shares

    def seconds_of(self, role: str) -> float:
        """Processor seconds that the processes of a role used in the whole round."""
        spans = [samples[-1].cpu - samples[0].cpu for name, samples in self.series.items() if name.startswith(role)]
        return sum(spans)

    @property
    def trouble(self) -> str:
        """Why the rate was not held; empty where it was."""
        if self.lost:
            return f"{self.lost:,} events lost"
        if self.p99 >= P99:
            return f"p99 {self.p99:,.0f} ms"
        if self.grown is not None and self.grown >= GROWTH:
            return f"memory grew by {100 * self.grown:.0f} %"
        return ""

    @property
    def held(self) -> bool:
        return not self.trouble


def outcome(
    rate: float,
    seconds: float,
    sent: Sequence[Mapping[str, Any]],
    taken: Iterable[Mapping[str, Any]],
    sampler: Sampler,
) -> Outcome:
    """The outcome of a round from what publishers and subscribers say.

    Where subscribers ask for different things, their answers say how many events each should have (`told`), and what
    else an auditor among them found wrong (`faults`); else each should have what the publishers told.
    """
    told = sum(answer["told"] for answer in sent)
    events = sum(answer["events"] for answer in sent)
    latencies, lost = dense([]), 0
    for answer in taken:
        latencies += dense(answer["latencies"])
        expected = answer.get("told", [told] * len(answer["events"]))
        lost += sum(_lost(*subscriber) for subscriber in zip(expected, *(answer[n] for n in _NOTED), strict=True))
        lost += sum(answer.get("faults", ()))
    slow = float("inf")
    p50, p99 = (quantile(latencies, share) for share in (0.5, 0.99))
    return Outcome(
        rate=rate,
        seconds=seconds,
        events=events,
        sent=sum(answer["sent"] for answer in sent),
        lost=lost,
        p50=slow if p50 is None else p50,
        p99=slow if p99 is None else p99,
        series=sampler.series,
        others=others(sampler.series, sampler.machine),
    )


_NOTED = ("events", "complete", "missed")


def _lost(told: int, events: int, complete: bool, missed: int) -> int:
    """Events one subscriber lacks; one too many is as wrong as one too few."""
    return max(abs(told - events), int(not complete), missed)
