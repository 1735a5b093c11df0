"""A chain at most of what it holds, first with one dictionary, then with another one every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from thinwire.demo.process_group_processes import two_cores
from thinwire_lab.live.live_feed_feed import feed_schema
from thinwire_lab.live.load_chain import Chain, Shape
from thinwire_lab.live.load_chain_outcome import Outcome
from thinwire_lab.live.saturation_rate import REHEARSAL

SETTLED = 3.0
"""seconds in which every publisher has gone over to a dictionary"""


@dataclass(frozen=True)
class Switched:
    """What came of it: the round with one dictionary, the round with many, and how often they were switched.

    bound: times that a publisher went over to another dictionary, as the log tells
    """

    steady: Outcome
    switching: Outcome
    switches: int
    bound: int

    @property
    def slower(self) -> float:
        """The latency while switching, p99, to the one without."""
        return self.switching.p99 / self.steady.p99


async def switched(shape: Shape, rate: float, seconds: float, every: float) -> Switched:
    """Both rounds on the same chain; another dictionary `every` so many seconds."""
    async with two_cores(), Chain(replace(shape, dictionaries="switching"), feed_schema()) as chain:
        await chain.round(REHEARSAL, 1.0)
        await chain.command("switching", do="switch")
        await asyncio.sleep(SETTLED)
        steady = await chain.round(rate, seconds)
        async with _switches(chain, every) as made:
            switching = await chain.round(rate, seconds)
        answer = await chain.command("switching", do="bound")
    return Switched(steady, switching, len(made), answer["bound"])


@asynccontextmanager
async def _switches(chain: Chain, every: float) -> AsyncIterator[list[str]]:
    """Another dictionary at regular times within the block; the hashes of those that were given."""
    made: list[str] = []

    async def switch() -> None:
        while True:
            made.append((await chain.command("switching", do="switch"))["hash"])
            await asyncio.sleep(every)

    task = asyncio.create_task(switch())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
