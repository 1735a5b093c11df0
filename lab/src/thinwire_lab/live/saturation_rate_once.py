"""One stack at one rate: what the scripts in benchmarks/ run."""

from __future__ import annotations

import asyncio
import sys

from thinwire.demo.process_group_processes import two_cores
from thinwire_lab.live.live_feed_feed import feed_schema
from thinwire_lab.live.load_chain import Chain
from thinwire_lab.live.load_chain_outcome import Outcome
from thinwire_lab.live.saturation_rate import REHEARSAL, SHAPES

RATE, SECONDS = 2_000.0, 10.0


def main(kind: str, arguments: list[str] | None = None) -> None:
    """`SCRIPT [RATE [SECONDS]]`: hold a rate and print what came of it."""
    given = [float(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    rate, seconds = (*given, *(RATE, SECONDS)[len(given) :])
    print(told(asyncio.run(once(kind, rate, seconds))))


async def once(kind: str, rate: float, seconds: float) -> Outcome:
    """One round after a rehearsal."""
    async with two_cores(), Chain(SHAPES[kind], feed_schema()) as chain:
        await chain.round(REHEARSAL, 1.0)
        return await chain.round(rate, seconds)


def told(outcome: Outcome) -> str:
    """An outcome in words.

    >>> print(told(Outcome(2000.0, 10.0, events=20_000, sent=20_000, lost=0, p50=3.0, p99=9.0)))
    2,000 events/s for 10 s: held; p50 3 ms, p99 9 ms, 0 lost, 1.00 frames an event
    """
    verdict = f"not held: {outcome.trouble}" if outcome.trouble else "held"
    text = f"{outcome.rate:,.0f} events/s for {outcome.seconds:g} s: {verdict}; p50 {outcome.p50:.0f} ms"
    text += f", p99 {outcome.p99:.0f} ms, {outcome.lost:,} lost, {outcome.sent_share:.2f} frames an event"
    cores = ", ".join(f"{role} {share:.2f}" for role, share in outcome.cpu.items())
    return f"{text}; cores: {cores}" if cores else text
