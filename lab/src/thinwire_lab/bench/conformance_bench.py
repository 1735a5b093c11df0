"""A hundred thousand subscriptions of a thousand tolerances, live: through one translator, on one core, exactly.

Biased in our favour in one way: all walk on one source, so that decoding is cheap beside telling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.tolerance_groups import Walked, walked

EVENTS_PER_SECOND = 2_000.0
MEGABYTES = 1_000.0
RATE = 2_500
"""events a second that are published"""


def live(setting: Setting) -> Iterator[Row]:
    """One run gives all rows."""
    sizes = (setting.size(100_000, 300), setting.size(50, 5), setting.size(60_000, 1_500), RATE)
    found = asyncio.run(walked(*sizes, setting.progress))
    how = _how(found)
    sound = not found.wrong
    note = f"told otherwise than `greedy`: tolerances {found.wrong} ticks" if found.wrong else ""
    through, on_core = found.events / found.seconds, found.events / found.cpu if found.cpu else None
    yield Row(
        "live: through one translator",
        "events/s",
        through,
        low=EVENTS_PER_SECOND,
        how=f"{how}; {RATE:,} a second published, until the last was told",
        note=note,
        sound=sound,
    )
    yield Row(
        "live: on one core of the translator",
        "events/s",
        on_core,
        low=EVENTS_PER_SECOND,
        how=f"{how}; by its processor time, {found.cpu:.1f} s",
        note=note,
        sound=sound,
    )
    yield Row(
        "live: resident memory of the translator",
        "MB",
        found.memory / 1e6,
        high=MEGABYTES,
        how=f"{how}; the registry needs {found.registry / 1e6:.0f} MB",
    )


def _how(found: Walked) -> str:
    return (
        f"{found.subscriptions:,} subscriptions in {found.classes:,} classes, registered in {found.registering:.0f} s "
        f"and served {found.serving:.0f} s later; {found.events:,} events of one source, {found.told:,} told to the "
        "audited"
    )


BARS = [Bar("live", live)]
