"""The edge live on one machine: a topic's rate triples, a host is killed; promises are kept again, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.edge.edge_failover import (
    CORES,
    HOSTS,
    INTERVAL,
    PROMISE,
    RATE,
    SHORTER,
    TOPICS,
    WINDOW,
    Recovery,
    killed,
    tripled,
)

SEEDS = (21, 22, 23, 24)
"""of the schedules; the controller was made with others"""
TRIES = 3
"""runs with a seed until one is not disturbed from outside"""
STAGE = (
    f"live, time-scaled, cores by timer: {TOPICS} topics of {RATE:g} messages/s and {1000 * INTERVAL:g} ms, "
    f"{HOSTS} hosts of {CORES} cores as processes, promise p90 {PROMISE:g} s, judged over {WINDOW:g} s"
)

Scene = Callable[..., Coroutine[Any, Any, Recovery]]


def rate(setting: Setting) -> Iterator[Row]:
    """The rate of one topic triples in mid-run."""
    for seed, found, note in _calm(tripled, setting):
        how = f"{STAGE}; {found.messages:,} messages, {found.moved} topics moved; judged over {SHORTER:g} s: "
        how += f"{_after(found.shorter)}; the topic alone on a host from the first moment on: {_after(found.alone)}"
        what = f"edge, rate of one topic tripled, seed {seed}"
        broken = "" if found.broken else "no promise was broken"
        told = note or ("" if _sound(found) else "never within the run") or broken
        name = f"{what}: every promise kept again after"
        yield Row(name, "s", found.restored, high=30, how=how, note=told, sound=_sound(found))
        yield Row(f"{what}: messages lost or with two results", "messages", _wrong(found), high=0, how=how)


def kill(setting: Setting) -> Iterator[Row]:
    """A host dies."""
    for seed, found, note in _calm(killed, setting):
        how = f"{STAGE}; {found.messages:,} messages, {found.moved} topics moved; kill -9 of the first topic's host"
        what = f"edge, host killed, seed {seed}"
        yield Row(f"{what}: its topics processed elsewhere after", "s", found.taken, high=10, how=how, note=note,
                  sound=found.taken is not None)  # fmt: skip
        told = note or ("" if _sound(found) else "never within the run")
        yield Row(f"{what}: every promise kept again after", "s", found.restored, how=how, note=told)
        yield Row(f"{what}: messages lost or with two results", "messages", _wrong(found), high=0, how=how)


def _calm(scene: Scene, setting: Setting) -> Iterator[tuple[int, Recovery, str]]:
    """For every seed a run that was not disturbed; the last one, and that it was, where there is none."""
    before, after = setting.size(20, 8), setting.size(60, 30)
    for seed in SEEDS[: setting.size(len(SEEDS), 1)]:
        note = ""
        for _ in range(TRIES):
            found = asyncio.run(scene(before, after, seed, setting.progress))
            note = f"disturbed: messages were sent up to {found.lateness:.2f} s late (p99)" if found.disturbed else ""
            if not note:
                break
        yield seed, found, note


def _sound(found: Recovery) -> bool:
    return found.restored is not None


def _after(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:g} s"


def _wrong(found: Recovery) -> int:
    return found.lost + found.repeated


BARS = [Bar("edge rate tripled", rate), Bar("edge host killed", kill)]
