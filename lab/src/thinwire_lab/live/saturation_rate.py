"""The saturation rate of a stack: the highest rate that four publishers and twenty subscribers hold on two cores.

A try of a rate takes seconds, so the search makes few of them:

>>> import asyncio
>>> tried = []
>>> async def is_held(rate):
...     tried.append(round(rate))
...     return rate <= 7300
>>> round(asyncio.run(find_highest(is_held, 4000)))
7165
>>> tried
[4000, 6000, 9000, 7348, 6640, 6985, 7165]
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import median

from thinwire_lab.live.live_feed import feed_schema
from thinwire_lab.live.load_chain import Chain, ChainShape, LoadOutcome
from thinwire_lab.live.process_measurement import two_cores

STRIDE = 1.5
PRECISION = 1.05
"""the lowest rate that failed as a multiple of the highest that was held, at most"""
CONFIRM_STEPS = (0.93, 0.93, 0.85, 0.75, 0.6, 0.5)
"""factor from one confirming try to the next"""
LOWEST, HIGHEST = 300.0, 2_000_000.0

IsHeld = Callable[[float], Awaitable[bool]]


async def find_highest(is_held: IsHeld, start: float, stride: float = STRIDE, precision: float = PRECISION) -> float:
    """Return the highest rate that is held, to the precision; 0 if not even the lowest rate is."""
    good, bad = await _find_bracket(is_held, start, stride)
    while good and bad / good > precision:
        middle = sqrt(good * bad)
        if await is_held(middle):
            good = middle
        else:
            bad = middle
    return good


async def confirm(is_held: IsHeld, rate: float) -> float:
    """Return the rate if it is held, otherwise a lower one that is held; 0 if no try succeeds."""
    for step in (*CONFIRM_STEPS, 0.0):
        if await is_held(rate):
            return rate
        rate *= step
    return 0.0


async def _find_bracket(is_held: IsHeld, rate: float, stride: float) -> tuple[float, float]:
    """Return a rate that is held and a higher one that is not."""
    if await is_held(rate):
        while rate < HIGHEST and await is_held(rate * stride):
            rate *= stride
        return rate, rate * stride
    while rate > LOWEST:
        rate /= stride
        if await is_held(rate):
            return rate, rate * stride
    return 0.0, rate


LINGER = 0.05
FIRST_RATES = {
    "thinwire": 26_000.0,
    "every event": 22_000.0,
    "json": 1_500.0,
    "json-batched": 20_000.0,
    "five classes": 16_000.0,
    "dictionaries": 24_000.0,
    "json frames": 9_000.0,
    "json frames, dictionaries": 9_000.0,
}
"""start of the first search; later ones start at the previous result"""
_CHANGES = ChainShape("thinwire", linger=LINGER, emit="changes")
SHAPES = {
    "thinwire": _CHANGES,
    "every event": ChainShape("thinwire", linger=LINGER, emit="all"),
    "json": ChainShape("json", linger=LINGER),
    "json-batched": ChainShape("json-batched", linger=LINGER),
    "five classes": replace(_CHANGES, classes=(0.5, 1.0, 2.0, 4.0, 8.0)),
    "dictionaries": replace(_CHANGES, dictionaries="service"),
    "json frames": replace(_CHANGES, format="json"),
    "json frames, dictionaries": replace(_CHANGES, format="json", dictionaries="service"),
}
"""the chains that are searched: thinwire with subscriptions to changes, to every event or in classes, with compact or
JSON frames, with or without dictionaries, and the references"""
_log = logging.getLogger("thinwire_lab.live")

FIRST_ROUND_RATE = 500.0
"""events per second of the first round, in which decoders receive their first key frames; it does not count"""


@dataclass(frozen=True)
class SaturationPlan:
    """Seconds of each try and number of searches.

    short: of a try while searching; long: of the one that confirms; precision: see `find_highest`
    stride, again: factors between tries of the first search and of later ones
    easy: limit in milliseconds of the p99 of a short try, lower than that of a long one, which lasts longer
    """

    short: float = 6.0
    long: float = 60.0
    runs: int = 3
    precision: float = 1.08
    stride: float = 1.5
    again: float = 1.15
    easy: float = 200.0

    def describe(self, runs: int) -> str:
        count = f"median of {runs} runs" if runs > 1 else "one run"
        return f"{count}, tries of {self.short:g} s, confirmed for {self.long:g} s"


QUICK = SaturationPlan(short=3.0, long=5.0, runs=1, precision=1.3, stride=2.0)


@dataclass
class SaturationRates:
    """The saturation rates of a stack, one for each run.

    rounds: the confirming rounds; failed: the last round that was not held
    other_cores: the most cores that other processes used in a round
    """

    kind: str
    plan: SaturationPlan
    rates: list[float] = field(default_factory=list)
    rounds: list[LoadOutcome] = field(default_factory=list)
    failed: LoadOutcome | None = None
    other_cores: float = 0.0

    @property
    def rate(self) -> float:
        return median(self.rates)


async def find_saturation_rates(
    kinds: Sequence[str], plan: SaturationPlan, progress: Callable[[float], None], first_run_only: Sequence[str] = ()
) -> dict[str, SaturationRates]:
    """Search the rates of several stacks. Each run searches all of them, so that other load affects all of them.

    first_run_only: stacks that are searched in the first run only
    """
    found = {kind: SaturationRates(kind, plan) for kind in kinds}
    async with two_cores():
        for run in range(plan.runs):
            for index, kind in enumerate(kinds):
                if run == 0 or kind not in first_run_only:
                    await _search(found[kind])
                progress((run * len(kinds) + index + 1) / (plan.runs * len(kinds)))
    return found


async def _search(found: SaturationRates) -> None:
    plan = found.plan
    async with _open_tries(found) as attempt:
        is_first = not found.rates
        start = FIRST_RATES[found.kind] if is_first else found.rates[-1] or FIRST_RATES[found.kind]

        async def is_held_easily(rate: float) -> bool:
            outcome = await attempt(rate, plan.short)
            return outcome.held and outcome.p99 < plan.easy

        async def is_held_long(rate: float) -> bool:
            outcome = await attempt(rate, plan.long)
            if outcome.held:
                found.rounds.append(outcome)
            return outcome.held

        rate = await find_highest(is_held_easily, start, plan.stride if is_first else plan.again, plan.precision)
        found.rates.append(await confirm(is_held_long, rate) if rate else 0.0)


@asynccontextmanager
async def _open_tries(found: SaturationRates) -> AsyncIterator[Callable[[float, float], Awaitable[LoadOutcome]]]:
    """Yield a function that tries a rate. A chain that lost events is replaced, because its backlog would remain."""
    resources = AsyncExitStack()
    chain: Chain | None = None

    async def attempt(rate: float, seconds: float) -> LoadOutcome:
        nonlocal chain
        if chain is None:
            chain = await resources.enter_async_context(Chain(SHAPES[found.kind], feed_schema()))
            await chain.round(FIRST_ROUND_RATE, 1.0)
        outcome = await chain.round(rate, seconds)
        found.other_cores = max(found.other_cores, outcome.other_cores)
        result = outcome.failure or f"p99 {outcome.p99:.0f} ms"
        _log.info("%s, %.0f events/s, %g s: %s", found.kind, rate, seconds, result)
        if not outcome.held:
            found.failed = outcome
        if outcome.lost:
            chain = None
            await resources.aclose()
        return outcome

    async with resources:
        yield attempt


RATE, SECONDS = 2_000.0, 10.0


async def try_once(kind: str, rate: float = RATE, seconds: float = SECONDS) -> LoadOutcome:
    """Publish at a rate for some seconds."""
    async with two_cores(), Chain(SHAPES[kind], feed_schema()) as chain:
        await chain.round(FIRST_ROUND_RATE, 1.0)
        return await chain.round(rate, seconds)


def describe_outcome(outcome: LoadOutcome) -> str:
    """Return an outcome as text.

    >>> print(describe_outcome(LoadOutcome(2000.0, 10.0, events=20_000, sent=20_000, lost=0, p50=3.0, p99=9.0)))
    2,000 events/s for 10 s: held; p50 3 ms, p99 9 ms, 0 lost, 1.00 frames an event
    """
    verdict = f"not held: {outcome.failure}" if outcome.failure else "held"
    text = f"{outcome.rate:,.0f} events/s for {outcome.seconds:g} s: {verdict}; p50 {outcome.p50:.0f} ms"
    text += f", p99 {outcome.p99:.0f} ms, {outcome.lost:,} lost, {outcome.sent_share:.2f} frames an event"
    cores = ", ".join(f"{role} {share:.2f}" for role, share in outcome.cpu.items())
    return f"{text}; cores: {cores}" if cores else text
