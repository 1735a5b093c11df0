"""The knee with five classes beside the one with a single class, and what the translator costs an event."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.live_bench_live_knee import CLASSES, OURS, rate_row, ratio_row
from thinwire_lab.live.saturation_rate import QUICK, SHAPES, Knees, Plan, knees

SHARE = 0.6
"""of the knee of one class that five classes must reach"""
MICROSECONDS = 60.0


def knee(setting: Setting) -> Iterator[Row]:
    """Both in the same run, in turn."""
    plan = QUICK if setting.quick else Plan()
    found = asyncio.run(knees([OURS, CLASSES], plan, setting.progress))
    for kind in (OURS, CLASSES):
        yield rate_row(found[kind], plan, low=None, judged=not setting.quick)
    yield ratio_row(found[CLASSES], found[OURS], SHARE)
    yield _translator_row(found[CLASSES])


def _translator_row(found: Knees) -> Row:
    name = "translator, five classes: processor time an event, at the knee"
    if not found.rounds:
        return Row(name, "us", high=MICROSECONDS, note="nothing was held", sound=False)
    held = found.rounds[-1]
    spent = held.seconds_of("translator")
    tolerances = ", ".join(f"{tolerance:g}" for tolerance in SHAPES[CLASSES].classes)
    how = f"{spent:.1f} s of processor time for {held.events:,} events at {held.rate:,.0f} events/s,"
    how += f" {held.sent_share:.2f} of them travelled; tolerances {tolerances}, the strictest of which reads the log"
    return Row(name, "us", 1e6 * spent / held.events, high=MICROSECONDS, how=how)


BARS = [Bar("class knee", knee)]
