"""The edge live on one machine: a topic's rate triples, a host is killed; promises are kept again, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from thinwire.evaluation.bench.bar import Bar, Row, Setting
from thinwire.evaluation.edge.live import (
    CORES,
    HOSTS,
    INTERVAL,
    PROMISE,
    RATE,
    TOPICS,
    WINDOW,
    Recovery,
    killed,
    tripled,
)

SEED = 1
TRIES = 3
"""runs until one is not disturbed from outside"""
STAGE = (
    f"live, time-scaled, cores by timer: {TOPICS} topics of {RATE:g} messages/s and {1000 * INTERVAL:g} ms, "
    f"{HOSTS} hosts of {CORES} cores as processes, promise p90 {PROMISE:g} s, judged over {WINDOW:g} s"
)

Scene = Callable[..., Coroutine[Any, Any, Recovery]]


def rate(setting: Setting) -> Iterator[Row]:
    """The rate of one topic triples in mid-run."""
    found, note = _calm(tripled, setting)
    how = f"{STAGE}; {found.messages:,} messages, {found.moved} topics moved"
    name = "edge, rate of one topic tripled: every promise kept again after"
    broken = "" if found.broken else "no promise was broken"
    yield Row(name, "s", found.restored, high=30, how=how, note=_never(found, note) or broken, sound=_sound(found))
    yield Row("edge, rate of one topic tripled: messages lost or with two results", "messages", _wrong(found), high=0,
              how=how)  # fmt: skip


def kill(setting: Setting) -> Iterator[Row]:
    """A host dies."""
    found, note = _calm(killed, setting)
    how = f"{STAGE}; {found.messages:,} messages, {found.moved} topics moved; kill -9 of the first topic's host"
    name = "edge, host killed: its topics processed elsewhere after"
    yield Row(name, "s", found.taken, high=10, how=how, note=note, sound=_sound(found))
    yield Row("edge, host killed: every promise kept again after", "s", found.restored, how=how, note=note)
    yield Row("edge, host killed: messages lost or with two results", "messages", _wrong(found), high=0, how=how)


def _calm(scene: Scene, setting: Setting) -> tuple[Recovery, str]:
    """A run that was not disturbed; the last one, and that it was, where there is none."""
    before, after = setting.size(20, 8), setting.size(60, 30)
    for turn in range(TRIES):
        found = asyncio.run(scene(before, after, SEED + turn, setting.progress))
        if not found.disturbed:
            return found, ""
    return found, f"disturbed in all of {TRIES} runs: messages were sent up to {found.lateness:.2f} s late (p99)"


def _sound(found: Recovery) -> bool:
    return found.restored is not None


def _never(found: Recovery, note: str) -> str:
    return note or ("" if found.restored is not None else "never within the run")


def _wrong(found: Recovery) -> int:
    return found.lost + found.repeated


BARS = [Bar("edge rate tripled", rate), Bar("edge host killed", kill)]
