"""A translator is killed in mid-stream on a long log: how soon is another one at work, and what does it read?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from thinwire.demo.process_group_processes import two_cores
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.delivery_audit_numbered import wrong
from thinwire_lab.live.live_feed_feed import SOURCES
from thinwire_lab.live.translator_failover import Recovery, recover
from thinwire_lab.live.translator_failover_class_stage import PUBLISHERS, RATE, SUBSCRIBERS

SECONDS = 5.0
SEED = 1
INTERVALS = {"seldom": (20_000, 1_000), "often": (2_000, 100)}
"""messages between two checkpoints, in a full run and in a quick one"""


def recovery(interval: tuple[int, int], setting: Setting) -> Iterator[Row]:
    """One kill with one interval."""
    every, frames = setting.size(*interval), setting.size(1_000_000, 20_000)
    found = asyncio.run(_recover(frames, every, setting))
    after = f"checkpoints every {every:,} messages"
    how = f"kill -9; log of {found.loaded.frames:,} frames in {found.loaded.messages:,} messages of"
    how += f" {PUBLISHERS} publishers and {PUBLISHERS * SOURCES} sources; {len(SUBSCRIBERS) - 1} classes,"
    how += f" {RATE:,.0f} events/s flow"
    note = "" if found.delivered is not None else "no event came"
    yield Row(f"recovery, {after}: kill to the successor's first message", "s", found.stored, high=SECONDS, how=how)
    yield Row(
        f"recovery, {after}: kill to the first event due after it at a subscriber",
        "s",
        found.delivered,
        high=SECONDS,
        how="the slower of both classes",
        note=note,
        sound=not note,
    )
    behind = "between the last checkpoint that was stored and the first message that some channel had not told"
    yield Row(f"recovery, {after}: messages read before that", "messages", found.replayed, how=behind)
    name = f"recovery, {after}: events lost, doubled, out of order or beyond their promise"
    events = sum(one.events for one in found.findings)
    worst = max(found.findings, key=lambda one: one.faults)
    how = f"{events:,} events at {len(found.findings)} subscribers"
    yield Row(name, "failures", found.faults, high=0, how=how, note=wrong(worst))


async def _recover(frames: int, every: int, setting: Setting) -> Recovery:
    async with two_cores():
        return await recover(frames, SEED, setting.progress, checkpoint_messages=every)


BARS = [Bar(f"class recovery, checkpoints {name}", partial(recovery, sizes)) for name, sizes in INTERVALS.items()]
