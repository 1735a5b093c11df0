"""Benchmarks of demand classes and their translators: failures, saturation rate, encodings and memory, recovery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.bench.live_bench import (
    CHANGES,
    CLASSES,
    SEED,
    fault_row,
    kill_benchmarks,
    rate_row,
    ratio_row,
    search_rates,
)
from thinwire_lab.live.delivery_audit import AuditedResult
from thinwire_lab.live.kill_test import PUBLISHERS, THREE_CLASSES, TRANSLATORS, Victim
from thinwire_lab.live.live_feed import SOURCES
from thinwire_lab.live.many_sources import EVENTS_PER_SOURCE, TOLERANCES, ManySourcesResult, run_many_sources
from thinwire_lab.live.process_measurement import two_cores
from thinwire_lab.live.saturation_rate import SHAPES, SaturationRates
from thinwire_lab.live.translator_failover import PUBLISHERS as FEED_PUBLISHERS
from thinwire_lab.live.translator_failover import (
    RATE,
    SUBSCRIBERS,
    TranslatorRecovery,
    kill_translator,
    pause_translator,
)

VICTIMS: tuple[Victim, ...] = ("translator", "broker", "publisher", "subscriber", "registry")
PAUSE = 150.0
"""seconds"""
QUICK_PAUSE, QUICK_LEASE = 6.0, 1.0


def pause(setting: Setting) -> Iterator[Row]:
    """Stop a translator until the other one has taken over, and continue it."""
    seconds = QUICK_PAUSE if setting.quick else PAUSE
    settings = {"lease": QUICK_LEASE} if setting.quick else {}
    found = asyncio.run(pause_translator(seconds, setting.progress, **settings))
    how = f"SIGSTOP for {seconds:g} s, then SIGCONT; {RATE:,.0f} events/s; the other translator wrote after"
    how += f" {found.takeover:.1f} s; {_count_events(found)}; {found.paused} was paused,"
    yield fault_row("a translator paused beyond its lease", found, f"{how} {found.active} active in the end")


def _count_events(found: AuditedResult) -> str:
    return f"{found.audited_events:,} events at {len(found.audits)} subscribers"


KILL_BENCHMARKS = [
    *kill_benchmarks(
        "class ",
        {victim: f"{victim}, three classes" for victim in VICTIMS},
        f"{PUBLISHERS} publishers, {TRANSLATORS} translators, {len(THREE_CLASSES)} durable subscribers of a class each",
        demands=THREE_CLASSES,
    ),
    Benchmark("class pause", pause),
]


MIN_SHARE = 0.6
"""the saturation rate with five classes as a share of that with one"""
MAX_MICROSECONDS = 60.0


def saturation_rate(setting: Setting) -> Iterator[Row]:
    """Search with one class and with five in the same run, in turn."""
    found = search_rates([CHANGES, CLASSES], setting)
    yield from map(rate_row, found.values())
    yield ratio_row(found[CLASSES], found[CHANGES], MIN_SHARE)
    yield _translator_row(found[CLASSES])


def _translator_row(found: SaturationRates) -> Row:
    name = "translator, five classes: processor time an event, at the saturation rate"
    if not found.rounds:
        return Row(name, "us", high=MAX_MICROSECONDS, invalid="no rate was held")
    held = found.rounds[-1]
    spent = held.cpu_seconds("translator")
    tolerances = ", ".join(f"{tolerance:g}" for tolerance in SHAPES[CLASSES].classes)
    how = f"{spent:.1f} s of processor time for {held.events:,} events at {held.rate:,.0f} events/s,"
    how += f" {held.sent_share:.2f} of them sent; tolerances {tolerances}, the strictest of which reads the log"
    return Row(name, "us", 1e6 * spent / held.events, high=MAX_MICROSECONDS, how=how)


SATURATION_BENCHMARKS = [Benchmark("class saturation rate", saturation_rate, tags=("class knee",))]


MAX_MEGABYTES = 500.0


def many_sources(setting: Setting) -> Iterator[Row]:
    """Measure encodings and memory of a translator in one run."""
    found = asyncio.run(run_many_sources(setting.size(1_000, 100), setting.size(100_000, 4_000), setting.progress))
    classes = len(TOLERANCES)
    how = f"{found.subscriptions:,} subscriptions in {classes} classes, one of each connected;"
    how += f" {found.sources:,} sources of a timestamp and one measurement, {EVENTS_PER_SOURCE} events each;"
    how += f" {found.events:,} events read"
    invalid = _describe_invalid(found)
    yield Row(
        "many subscribers: encodings an event",
        "times",
        found.encodings / found.events if found.events else None,
        high=float(classes),
        how=f"{how}, {found.encodings:,} encodings; the strictest class reads the log",
        invalid=invalid,
    )
    yield Row(
        "many sources: resident memory of the translator",
        "MB",
        found.memory / 1e6,
        high=MAX_MEGABYTES,
        how=f"{how}; {found.before / 1e6:.0f} MB before the first event, {found.after / 1e6:.0f} MB in the end",
        invalid=invalid,
    )


def _describe_invalid(found: ManySourcesResult) -> str:
    expected = found.sources * EVENTS_PER_SOURCE
    if found.events != expected:
        return f"the translator has read {found.events:,} events, not {expected:,}"
    return f"{found.faults:,} faults at the subscribers" if found.faults else ""


MANY_SOURCES_BENCHMARKS = [Benchmark("many subscribers and sources", many_sources, tags=("class crowd",))]


MAX_SECONDS = 5.0
INTERVALS = {"seldom": (20_000, 1_000), "often": (2_000, 100)}
"""messages between two checkpoints, in a full run and in a quick one"""


def recovery(interval: tuple[int, int], setting: Setting) -> Iterator[Row]:
    """Kill a translator once, with one interval of checkpoints."""
    messages, frames = setting.size(*interval), setting.size(1_000_000, 20_000)
    found = asyncio.run(_recover(frames, messages, setting))
    name = f"recovery, checkpoints every {messages:,} messages"
    history = found.history
    how = f"kill -9; log of {history.frames:,} frames in {history.messages:,} messages of {FEED_PUBLISHERS} publishers"
    how += f" and {FEED_PUBLISHERS * SOURCES} sources; {len(SUBSCRIBERS) - 1} classes, {RATE:,.0f} events/s flow"
    invalid = "" if found.delivered is not None else "no event was delivered"
    yield Row(f"{name}: kill to the successor's first message", "s", found.stored, high=MAX_SECONDS, how=how)
    yield Row(
        f"{name}: kill to the first event due after it at a subscriber",
        "s",
        found.delivered,
        high=MAX_SECONDS,
        how="the slower of both classes",
        invalid=invalid,
    )
    how = "between the last stored checkpoint and the first message that a channel lacks"
    yield Row(f"{name}: messages read before that", "messages", found.replayed, how=how)
    yield fault_row(name, found, _count_events(found))


async def _recover(frames: int, messages: int, setting: Setting) -> TranslatorRecovery:
    async with two_cores():
        return await kill_translator(frames, SEED, setting.progress, checkpoint_messages=messages)


RECOVERY_BENCHMARKS = [
    Benchmark(f"class recovery, checkpoints {name}", partial(recovery, sizes)) for name, sizes in INTERVALS.items()
]
