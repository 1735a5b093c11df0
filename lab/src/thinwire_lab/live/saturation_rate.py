"""The knee of a stack: the highest rate four publishers and twenty subscribers hold on two cores.

The search for a knee: the highest rate that is held, each try costing seconds.

>>> import asyncio
>>> tried = []
>>> async def held(rate):
...     tried.append(round(rate))
...     return rate <= 7300
>>> round(asyncio.run(climb(held, 4000)))
7165
>>> tried
[4000, 6000, 9000, 7348, 6640, 6985, 7165]

One stack at one rate: what the scripts in benchmarks/ run.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import sqrt
from statistics import median

from thinwire.demo.process_group import two_cores
from thinwire_lab.live.live_feed import feed_schema
from thinwire_lab.live.load_chain import Chain, ChainShape, LoadOutcome

STRIDE = 1.5
PRECISION = 1.05
"""how far the lowest rate that failed may lie above the highest that was held"""
STEPS = (0.93, 0.93, 0.85, 0.75, 0.6, 0.5)
"""from one try that confirms to the next"""
LOWEST, HIGHEST = 300.0, 2_000_000.0

Held = Callable[[float], Awaitable[bool]]


async def climb(held: Held, start: float, stride: float = STRIDE, precision: float = PRECISION) -> float:
    """The highest rate that is held, to the precision; 0 where not even the lowest is."""
    good, bad = await _bracket(held, start, stride)
    while good and bad / good > precision:
        middle = sqrt(good * bad)
        if await held(middle):
            good = middle
        else:
            bad = middle
    return good


async def confirm(held: Held, rate: float) -> float:
    """The rate, or the next lower one that is held for long; 0 after a few tries, each further below the one before."""
    for step in (*STEPS, 0.0):
        if await held(rate):
            return rate
        rate *= step
    return 0.0


async def _bracket(held: Held, rate: float, stride: float) -> tuple[float, float]:
    """A rate that is held and a higher one that is not."""
    if await held(rate):
        while rate < HIGHEST and await held(rate * stride):
            rate *= stride
        return rate, rate * stride
    while rate > LOWEST:
        rate /= stride
        if await held(rate):
            return rate, rate * stride
    return 0.0, rate


LINGER = 0.05
FIRST = {
    "thinwire": 26_000.0,
    "every event": 22_000.0,
    "json": 1_500.0,
    "json-batched": 20_000.0,
    "five classes": 16_000.0,
    "dictionaries": 24_000.0,
    "spelled out": 9_000.0,
    "spelled out, dictionaries": 9_000.0,
}
"""where the first search begins; the later ones begin where it ended"""
SHAPES = {
    "thinwire": ChainShape("thinwire", linger=LINGER, emit="changes"),
    "every event": ChainShape("thinwire", linger=LINGER, emit="all"),
    "json": ChainShape("json", linger=LINGER),
    "json-batched": ChainShape("json-batched", linger=LINGER),
    "five classes": ChainShape("thinwire", linger=LINGER, emit="changes", classes=(0.5, 1.0, 2.0, 4.0, 8.0)),
    "dictionaries": ChainShape("thinwire", linger=LINGER, emit="changes", dictionaries="service"),
    "spelled out": ChainShape("thinwire", linger=LINGER, emit="changes", format="json"),
    "spelled out, dictionaries": ChainShape(
        "thinwire", linger=LINGER, emit="changes", format="json", dictionaries="service"
    ),
}
"""what is searched: ours with subscribers that ask for changes, for every event, or in classes, with compact frames and
with frames of JSON, either with dictionaries, and the references"""
_log = logging.getLogger("thinwire.evaluation")

REHEARSAL = 500.0
"""events a second of the round that only makes everybody known to everybody"""


@dataclass(frozen=True)
class SaturationPlan:
    """How long each try takes, in seconds, and how often the whole is done.

    short: of a try while searching; long: of the one that confirms; precision: see `climb`
    easy: p99 in milliseconds below which a short try must stay: one that just meets the limit would not for long
    """

    short: float = 6.0
    long: float = 60.0
    runs: int = 3
    precision: float = 1.08
    stride: float = 1.5
    again: float = 1.15
    easy: float = 200.0

    def how(self, runs_made: int) -> str:
        """In words, for a stack that was searched so many times."""
        runs = f"median of {runs_made} runs" if runs_made > 1 else "one run"
        return f"{runs}, tries of {self.short:g} s, confirmed for {self.long:g} s"


QUICK = SaturationPlan(short=3.0, long=5.0, runs=1, precision=1.3, stride=2.0)


@dataclass
class Knees:
    """The knees a stack had, one a run.

    rounds: those that confirmed them; failed: the last round that was not held; others: see `LoadOutcome`, the largest
    """

    kind: str
    rates: list[float] = field(default_factory=list)
    rounds: list[LoadOutcome] = field(default_factory=list)
    failed: LoadOutcome | None = None
    others: float = 0.0

    @property
    def knee(self) -> float:
        return median(self.rates)


async def knees(
    kinds: Sequence[str], plan: SaturationPlan, progress: Callable[[float], None], beside: Sequence[str] = ()
) -> dict[str, Knees]:
    """The knees of several stacks, run by run in turn, so that a busy hour of the machine meets all of them.

    beside: those of them that are searched once only
    """
    found = {kind: Knees(kind) for kind in kinds}
    async with two_cores():
        for run in range(plan.runs):
            for place, kind in enumerate(kinds):
                if run == 0 or kind not in beside:
                    await _one(found[kind], plan)
                progress((run * len(kinds) + place + 1) / (plan.runs * len(kinds)))
    return found


async def _one(found: Knees, plan: SaturationPlan) -> None:
    async with _tries(found) as attempt:
        first = not found.rates
        start = FIRST[found.kind] if first else found.rates[-1] or FIRST[found.kind]

        async def held(rate: float) -> bool:
            found_out = await attempt(rate, plan.short)
            return found_out.held and found_out.p99 < plan.easy

        async def held_long(rate: float) -> bool:
            found_out = await attempt(rate, plan.long)
            if found_out.held:
                found.rounds.append(found_out)
            return found_out.held

        rate = await climb(held, start, plan.stride if first else plan.again, plan.precision)
        found.rates.append(await confirm(held_long, rate) if rate else 0.0)


@asynccontextmanager
async def _tries(found: Knees) -> AsyncIterator[Callable[[float, float], Awaitable[LoadOutcome]]]:
    """Rounds on a chain that is kept as long as it loses nothing: one that choked must not burden the next try."""
    chains: list[Chain] = []

    async def attempt(rate: float, seconds: float) -> LoadOutcome:
        if not chains:
            chain = Chain(SHAPES[found.kind], feed_schema())
            await chain.__aenter__()
            chains.append(chain)
            await chain.round(REHEARSAL, 1.0)
        outcome = await chains[0].round(rate, seconds)
        found.others = max(found.others, outcome.others)
        _log.info(
            "%s, %.0f events/s, %g s: %s", found.kind, rate, seconds, outcome.trouble or f"p99 {outcome.p99:.0f} ms"
        )
        if not outcome.held:
            found.failed = outcome
        if outcome.lost:
            await chains.pop().__aexit__(None, None, None)
        return outcome

    try:
        yield attempt
    finally:
        for chain in chains:
            await chain.__aexit__(None, None, None)


RATE, SECONDS = 2_000.0, 10.0


def main(kind: str, arguments: list[str] | None = None) -> None:
    """`SCRIPT [RATE [SECONDS]]`: hold a rate and print what came of it."""
    given = [float(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    rate, seconds = (*given, *(RATE, SECONDS)[len(given) :])
    print(describe_outcome(asyncio.run(once(kind, rate, seconds))))


async def once(kind: str, rate: float, seconds: float) -> LoadOutcome:
    """One round after a rehearsal."""
    async with two_cores(), Chain(SHAPES[kind], feed_schema()) as chain:
        await chain.round(REHEARSAL, 1.0)
        return await chain.round(rate, seconds)


def describe_outcome(outcome: LoadOutcome) -> str:
    """An outcome in words.

    >>> print(describe_outcome(LoadOutcome(2000.0, 10.0, events=20_000, sent=20_000, lost=0, p50=3.0, p99=9.0)))
    2,000 events/s for 10 s: held; p50 3 ms, p99 9 ms, 0 lost, 1.00 frames an event
    """
    verdict = f"not held: {outcome.trouble}" if outcome.trouble else "held"
    text = f"{outcome.rate:,.0f} events/s for {outcome.seconds:g} s: {verdict}; p50 {outcome.p50:.0f} ms"
    text += f", p99 {outcome.p99:.0f} ms, {outcome.lost:,} lost, {outcome.sent_share:.2f} frames an event"
    cores = ", ".join(f"{role} {share:.2f}" for role, share in outcome.cpu.items())
    return f"{text}; cores: {cores}" if cores else text
