"""Kill -9 of each part with classes at work, and a translator that stands still beyond its lease and wakes up.

The knee with five classes beside the one with a single class, and what the translator costs an event.

A thousand subscribers in ten classes: how often an event is encoded, and what a hundred thousand sources need.

A translator is killed in mid-stream on a long log: how soon is another one at work, and what does it read?
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from thinwire.demo.process_group import two_cores
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.live_bench import CLASSES, OURS, rate_row, ratio_row
from thinwire_lab.live.delivery_audit import wrong
from thinwire_lab.live.kill_test import LATEST_WITH_CLASSES, PUBLISHERS, THREE_CLASSES, TRANSLATORS, Victim, havoc
from thinwire_lab.live.live_feed import SOURCES
from thinwire_lab.live.many_sources import ROUNDS, TOLERANCES, ManySourcesResult, run_many_sources
from thinwire_lab.live.saturation_rate import QUICK, SHAPES, Knees, SaturationPlan, knees
from thinwire_lab.live.translator_failover import (
    RATE,
    STEADY_PUBLISHERS,
    SUBSCRIBERS,
    TranslatorRecovery,
    recover,
    stand_still,
)

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


CHANNEL_KILL_REQUIREMENTS = [
    *(Bar(f"class kill {victim}", partial(kills, victim)) for victim in VICTIMS),
    Bar("class pause", pause),
]


SHARE = 0.6
"""of the knee of one class that five classes must reach"""
MICROSECONDS = 60.0


def knee(setting: Setting) -> Iterator[Row]:
    """Both in the same run, in turn."""
    plan = QUICK if setting.quick else SaturationPlan()
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


CHANNEL_SATURATION_REQUIREMENTS = [Bar("class knee", knee)]


MEGABYTES = 500.0


def many(setting: Setting) -> Iterator[Row]:
    """One run gives both rows."""
    found = asyncio.run(run_many_sources(setting.size(1_000, 100), setting.size(100_000, 4_000), setting.progress))
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


def _trouble(found: ManySourcesResult) -> str:
    expected = found.sources * ROUNDS
    if found.events != expected:
        return f"the translator has read {found.events:,} events, not {expected:,}"
    return f"{found.faults:,} faults at the subscribers" if found.faults else ""


CHANNEL_GROUP_REQUIREMENTS = [Bar("class crowd", many)]


SECONDS = 5.0
INTERVALS = {"seldom": (20_000, 1_000), "often": (2_000, 100)}
"""messages between two checkpoints, in a full run and in a quick one"""


def recovery(interval: tuple[int, int], setting: Setting) -> Iterator[Row]:
    """One kill with one interval."""
    every, frames = setting.size(*interval), setting.size(1_000_000, 20_000)
    found = asyncio.run(_recover(frames, every, setting))
    after = f"checkpoints every {every:,} messages"
    how = f"kill -9; log of {found.loaded.frames:,} frames in {found.loaded.messages:,} messages of"
    how += f" {STEADY_PUBLISHERS} publishers and {STEADY_PUBLISHERS * SOURCES} sources; {len(SUBSCRIBERS) - 1} classes,"
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


async def _recover(frames: int, every: int, setting: Setting) -> TranslatorRecovery:
    async with two_cores():
        return await recover(frames, SEED, setting.progress, checkpoint_messages=every)


CHANNEL_RECOVERY_REQUIREMENTS = [
    Bar(f"class recovery, checkpoints {name}", partial(recovery, sizes)) for name, sizes in INTERVALS.items()
]
