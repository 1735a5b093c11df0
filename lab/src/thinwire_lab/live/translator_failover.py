"""A translator that dies in mid-stream, and one that stands still and wakes up: how long, and what is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from thinwire.demo.process_group_processes import micros
from thinwire_lab.live.delivery_audit import Findings
from thinwire_lab.live.live_feed_feed import TOPIC
from thinwire_lab.live.service_roles import translator_of
from thinwire_lab.live.translator_failover_class_stage import ClassStage, Loaded, pause, resume

FLOWING = (2.0, 5.0)
"""seconds in which events flow before anything happens"""
AFTERWARDS = 5.0
"""seconds in which they flow when it is over"""
TAKING_OVER = 120.0
"""seconds in which somebody must have taken over"""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Recovery:
    """What came of a kill.

    stored: seconds from the kill to the first message of the successor; delivered: to the first event that was due
    after the kill, at the subscriber of a class that was last to have one; None where none ever came
    replayed: messages of the log that the successor had to read before it could go on
    findings: what is wrong with what each subscriber was handed
    """

    loaded: Loaded
    stored: float
    delivered: float | None
    replayed: int
    findings: tuple[Findings, ...]

    @property
    def faults(self) -> int:
        return sum(found.faults for found in self.findings)


@dataclass(frozen=True)
class Pause:
    """What came of a pause.

    taken_over: seconds until somebody else wrote; paused, holder: who stood still, and who had the topic in the end
    """

    seconds: float
    taken_over: float
    paused: str
    holder: str
    findings: tuple[Findings, ...]

    @property
    def faults(self) -> int:
        return sum(found.faults for found in self.findings)


async def recover(frames: int, seed: int, progress: Progress, **translators: Any) -> Recovery:
    """Kill the translator of a topic with a log of so many frames."""
    async with ClassStage(**translators) as stage:
        loaded = await stage.load(frames)
        progress(0.6)
        await asyncio.sleep(Random(seed).uniform(*FLOWING))
        await stage.require_channels()
        worker, says = await stage.holder()
        watching = await stage.successor(says["epoch"])
        killed = micros()
        await worker.kill()
        to_replay = await stage.to_replay()
        stored = await asyncio.wait_for(watching, TAKING_OVER)
        came = await stage.first_after(killed)
        progress(0.8)
        await asyncio.sleep(AFTERWARDS)
        findings = await stage.finish()
    # the first subscriber reads the log, which no translator can hold up
    waits = [None if at is None else (at - killed) / 1e6 for at in came[1:]]
    delivered = None if None in waits else max(wait for wait in waits if wait is not None)
    return Recovery(loaded, stored - killed / 1e6, delivered, to_replay, findings)


async def stand_still(seconds: float, progress: Progress, **translators: Any) -> Pause:
    """Stop the translator of a topic for so many seconds, and let it go on."""
    async with ClassStage(**translators) as stage:
        await stage.load(0)
        await asyncio.sleep(FLOWING[0])
        await stage.require_channels()
        worker, says = await stage.holder()
        watching = await stage.successor(says["epoch"])
        paused = micros()
        pause(worker)
        try:
            stored = await asyncio.wait_for(watching, TAKING_OVER)
            while (left := paused / 1e6 + seconds - micros() / 1e6) > 0:
                await asyncio.sleep(min(1.0, left))
                progress(0.9 * (1 - left / seconds))
        finally:
            resume(worker)
        await asyncio.sleep(AFTERWARDS)
        holder = await translator_of(stage.broker, TOPIC)
        findings = await stage.finish()
    return Pause(seconds, stored - paused / 1e6, says["name"], holder["name"], findings)
