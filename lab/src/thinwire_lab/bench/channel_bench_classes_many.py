"""A thousand subscribers in ten classes: how often an event is encoded, and what a hundred thousand sources need."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.many_sources import Crowd, crowd
from thinwire_lab.live.many_sources_class_sweep import ROUNDS, TOLERANCES

MEGABYTES = 500.0


def many(setting: Setting) -> Iterator[Row]:
    """One run gives both rows."""
    found = asyncio.run(crowd(setting.size(1_000, 100), setting.size(100_000, 4_000), setting.progress))
    classes = len(TOLERANCES)
    how = f"{found.subscriptions:,} subscriptions in {classes} classes, one of each connected;"
    how += f" {found.sources:,} sources of a timestamp and one measurement, {ROUNDS} events each;"
    how += f" {found.events:,} events read"
    note = _trouble(found)
    yield Row(
        "many subscribers: encodings an event",
        "times",
        found.encodings / found.events if found.events else None,
        high=float(classes),
        how=f"{how}, {found.encodings:,} encodings; the strictest class reads the log",
        note=note,
        sound=not note,
    )
    yield Row(
        "many sources: resident memory of the translator",
        "MB",
        found.memory / 1e6,
        high=MEGABYTES,
        how=f"{how}; {found.before / 1e6:.0f} MB before the first event, {found.after / 1e6:.0f} MB in the end",
        note=note,
        sound=not note,
    )


def _trouble(found: Crowd) -> str:
    expected = found.sources * ROUNDS
    if found.events != expected:
        return f"the translator has read {found.events:,} events, not {expected:,}"
    return f"{found.faults:,} faults at the subscribers" if found.faults else ""


BARS = [Bar("class crowd", many)]
