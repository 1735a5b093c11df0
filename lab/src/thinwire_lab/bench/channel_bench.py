"""Kill -9 of each part with classes at work, and a translator that stands still beyond its lease and wakes up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.delivery_audit_numbered import wrong
from thinwire_lab.live.kill_test import LATEST_WITH_CLASSES, PUBLISHERS, THREE_CLASSES, TRANSLATORS, Victim, havoc
from thinwire_lab.live.translator_failover import stand_still
from thinwire_lab.live.translator_failover_class_stage import RATE

SEED = 1
VICTIMS: tuple[Victim, ...] = ("translator", "broker", "publisher", "subscriber", "registry")
PAUSE = 150.0
"""seconds"""
QUICK_PAUSE, QUICK_LEASE = 6.0, 1.0


def kills(victim: Victim, setting: Setting) -> Iterator[Row]:
    """One victim, killed again and again."""
    found = asyncio.run(havoc(victim, setting.size(20, 2), SEED, setting.progress, wishes=THREE_CLASSES))
    worst = max(found.verdicts, key=lambda verdict: verdict.faults)
    how = f"{found.kills} kills within {LATEST_WITH_CLASSES:g} s of each other, seed {SEED}; {PUBLISHERS} publishers,"
    how += f" {TRANSLATORS} translators, {len(found.verdicts)} durable subscribers of a class each,"
    how += f" {found.events:,} events recorded"
    name = f"kill -9 of the {victim}, three classes: events missing, repeated, out of order or beyond their bound"
    yield Row(name, "failures", found.faults, high=0, how=how, note=wrong(worst))


def pause(setting: Setting) -> Iterator[Row]:
    """One translator stops; the other takes over; the first goes on as if nothing had happened."""
    seconds = QUICK_PAUSE if setting.quick else PAUSE
    settings = {"lease": QUICK_LEASE} if setting.quick else {}
    found = asyncio.run(stand_still(seconds, setting.progress, **settings))
    how = f"SIGSTOP for {seconds:g} s, then SIGCONT; {RATE:,.0f} events/s; the other one wrote after"
    how += f" {found.taken_over:.1f} s; {sum(one.events for one in found.findings):,} events at"
    how += f" {len(found.findings)} subscribers; {found.paused} stood still, {found.holder} had the topic in the end"
    worst = max(found.findings, key=lambda one: one.faults)
    name = "a translator stands still beyond its lease: events lost, doubled, out of order or beyond their promise"
    yield Row(name, "failures", found.faults, high=0, how=how, note=wrong(worst))


BARS = [
    *(Bar(f"class kill {victim}", partial(kills, victim)) for victim in VICTIMS),
    Bar("class pause", pause),
]
