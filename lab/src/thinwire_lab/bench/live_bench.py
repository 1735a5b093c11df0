"""Benchmarks of the live system: bytes of the link and saturation rate compared with JSON, and kill -9 of each part."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.live.delivery_audit import AuditedResult, describe_faults
from thinwire_lab.live.kill_test import (
    MAX_INTERVAL,
    MAX_TAKEOVER_INTERVAL,
    PUBLISHERS,
    SUBSCRIBERS,
    Victim,
    run_kill_test,
)
from thinwire_lab.live.load_chain import LoadOutcome
from thinwire_lab.live.saturation_rate import LINGER, QUICK, SaturationPlan, SaturationRates, find_saturation_rates
from thinwire_lab.live.wire_bytes import PLANTS, TOLERANCE, Wire, WireBytes, measure_wires

SEED = 1
VICTIMS: tuple[Victim, ...] = ("broker", "publisher", "subscriber", "registry")


def kill_benchmarks(
    prefix: str,
    titles: Mapping[Victim, str],
    system: str,
    interval: str = f"{MAX_TAKEOVER_INTERVAL:g} s of each other",
    **options: Any,
) -> list[Benchmark]:
    """Return a benchmark for each part of a system that is killed repeatedly.

    titles: the victims and their names in rows; system: description of the other processes
    interval: time between kills, as text; options: of `run_kill_test`
    """

    def kill(victim: Victim, setting: Setting) -> Iterator[Row]:
        found = asyncio.run(run_kill_test(victim, setting.size(20, 2), SEED, setting.progress, **options))
        how = f"{found.kills} kills within {interval}, seed {SEED}; {system}, {found.audited_events:,} events recorded"
        is_unused = options.get("dictionaries") and not found.dictionary
        invalid = "no dictionary was in use in the end" if is_unused else ""
        yield fault_row(f"kill -9 of the {titles[victim]}", found, how, invalid)

    return [Benchmark(f"{prefix}kill {victim}", partial(kill, victim)) for victim in titles]


def fault_row(name: str, found: AuditedResult, how: str, invalid: str = "") -> Row:
    """Return the row of a failure test, with the faults of all subscribers.

    invalid: why the test is not valid
    """
    note = describe_faults(max(found.audits, key=lambda audit: audit.faults))
    name = f"{name}: events missing, repeated, out of order or beyond their bound"
    return Row(name, "failures", found.faults, high=0, how=how, note=note, invalid=invalid)


KILL_BENCHMARKS = kill_benchmarks(
    "",
    {victim: victim for victim in VICTIMS},
    f"{PUBLISHERS} publishers, {SUBSCRIBERS} durable subscribers",
    interval=f"{MAX_INTERVAL:g} s of each start",
)


CHANGES, ALL_EVENTS, PER_EVENT, BATCHED, CLASSES = "thinwire", "every event", "json", "json-batched", "five classes"
"""kinds of stacks in `SHAPES`"""
TITLES = {
    CHANGES: "thinwire, changes delivered",
    ALL_EVENTS: "thinwire, every event delivered",
    PER_EVENT: "JSON, one message an event",
    BATCHED: "JSON in batches",
    CLASSES: "thinwire, changes delivered to five classes",
    "dictionaries": "thinwire, changes delivered, with dictionaries",
    "json frames": "thinwire, changes delivered in frames of JSON",
    "json frames, dictionaries": "thinwire, changes delivered in frames of JSON packed with dictionaries",
}
MIN_RATE = 12_000.0
MIN_RATIOS = {PER_EVENT: 2.0, BATCHED: 1.3}
"""the required ratio of thinwire to each reference"""
FRAMES_PER_EVENT = (0.48, 0.52)
"""lowest and highest number for the load feed; short runs exceed it because every source is defined once"""
MAX_OTHER_CORES = 0.3
"""cores used by other processes above which the row has a note"""


def saturation_rate(setting: Setting) -> Iterator[Row]:
    """Measure the saturation rates of all stacks in the same run, in turn."""
    found = search_rates([CHANGES, PER_EVENT, BATCHED, ALL_EVENTS], setting, first_run_only=[ALL_EVENTS])
    for kind in (CHANGES, ALL_EVENTS, PER_EVENT, BATCHED):
        yield rate_row(found[kind], MIN_RATE if kind == CHANGES else None)
    for kind, low in MIN_RATIOS.items():
        yield ratio_row(found[CHANGES], found[kind], low)
    yield ratio_row(found[ALL_EVENTS], found[BATCHED], None)


def search_rates(
    kinds: Sequence[str], setting: Setting, first_run_only: Sequence[str] = ()
) -> dict[str, SaturationRates]:
    """Return the saturation rates of several stacks, searched in the same run, in turn."""
    plan = QUICK if setting.quick else SaturationPlan()
    return asyncio.run(find_saturation_rates(kinds, plan, setting.progress, first_run_only))


def rate_row(found: SaturationRates, low: float | None = None) -> Row:
    """Return the row of one stack. The share of sent events is not checked in a quick run, in which it differs."""
    how = f"{found.plan.describe(len(found.rates))}; 4 publishers, 20 subscriber connections, two cores"
    how += f", linger {1000 * LINGER:g} ms" if found.kind != PER_EVENT else ""
    how += f"; runs: {', '.join(f'{rate:,.0f}' for rate in found.rates)}"
    if found.rounds:
        how += _describe_round(found.rounds[-1])
    if found.failed is not None:
        how += f"; at {found.failed.rate:,.0f}: {found.failed.failure}"
    share = found.rounds[-1].sent_share if found.rounds else 0.5
    checked = found.plan is not QUICK and found.kind in (CHANGES, ALL_EVENTS, CLASSES)
    wrong = checked and not FRAMES_PER_EVENT[0] <= share <= FRAMES_PER_EVENT[1]
    invalid = f"{share:.2f} frames an event, not 0.5" if wrong else ""
    note = f"other processes used up to {found.other_cores:.1f} cores" if found.other_cores > MAX_OTHER_CORES else ""
    name = f"saturation rate, {TITLES[found.kind]}: events a second held"
    return Row(name, "events/s", found.rate, low=low, how=how, note=note, invalid=invalid)


def _describe_round(outcome: LoadOutcome) -> str:
    cores = ", ".join(f"{role} {used:.2f}" for role, used in outcome.cpu.items())
    text = f"; p99 {outcome.p99:.0f} ms, p50 {outcome.p50:.0f} ms, {outcome.sent_share:.2f} frames an event"
    text += f"; cores: {cores}"
    growth = outcome.max_memory_growth
    return text + (f"; memory {100 * growth:+.1f} % at most" if growth is not None else "")


def ratio_row(ours: SaturationRates, reference: SaturationRates, low: float | None) -> Row:
    """Return the ratio of two saturation rates of the same run."""
    name = f"saturation rate, {TITLES[ours.kind]}, to {TITLES[reference.kind]}"
    how = f"{ours.rate:,.0f} to {reference.rate:,.0f} events/s, medians of the same run"
    value = ours.rate / reference.rate if reference.rate else None
    return Row(name, "times", value, low=low, how=how, invalid="" if reference.rate else "no rate was held")


SATURATION_BENCHMARKS = [Benchmark("saturation rate", saturation_rate, tags=("knee",))]


RATE = 20.0
"""events per second of each plant in the rows with a required result"""
OTHER_RATES = (1.0, 200.0)
MAX_LATE_SHARE = 0.05
"""share of events that may be sent late"""
MAX_PARTS = {0.005: 1 / 4, 0.1: 1 / 10}
"""linger -> required part of the bytes of JSON"""


def link_bytes(setting: Setting) -> Iterator[Row]:
    """Measure thinwire with two lingers at three rates, and JSON in batches."""
    seconds = float(setting.size(60, 5))
    rates = (RATE, *OTHER_RATES)
    references = {rate: Wire("json", 0.0, rate) for rate in rates}
    ours = [Wire("thinwire", linger, rate) for rate in rates for linger in MAX_PARTS]
    batched = [Wire("json-batched", linger, RATE) for linger in MAX_PARTS]
    wires = [*references.values(), *ours, *batched]
    measured: dict[Wire, WireBytes] = {}
    for index, rate in enumerate(rates):
        measured |= asyncio.run(measure_wires([wire for wire in wires if wire.rate == rate], seconds))
        setting.progress((index + 1) / len(rates))
    for wire in [*ours, *batched]:
        yield _link_row(measured[wire], measured[references[wire.rate]], seconds)


def _link_row(measured: WireBytes, reference: WireBytes, seconds: float) -> Row:
    wire, is_ours = measured.wire, measured.wire.kind == "thinwire"
    what = "thinwire" if is_ours else "JSON in batches"
    name = f"link bytes, {what}, linger {1000 * wire.linger:g} ms, {wire.rate:g} events/s a publisher: to JSON"
    high = MAX_PARTS[wire.linger] if is_ours and wire.rate == RATE else None
    to_broker, from_broker = measured.to_broker / measured.events, measured.from_broker / measured.events
    how = f"building, {PLANTS} plants for {seconds:g} s, within {TOLERANCE:g}: {measured.per_event:,.0f} bytes an event"
    how += f" ({to_broker:,.0f} to the broker, {from_broker:,.0f} from it) against {reference.per_event:,.0f}"
    how += f"; set-up apart: {measured.set_up:,} and {reference.set_up:,} bytes"
    how += f"; {measured.sent / measured.events:.2f} of the events sent"
    part, invalid = measured.per_event / reference.per_event, _describe_invalid(measured, reference)
    return Row(name, "part", part, high=high, how=how, invalid=invalid)


def _describe_invalid(*measured: WireBytes) -> str:
    if not all(wire.complete for wire in measured):
        return "not every event arrived"
    late_share = max(wire.late_share for wire in measured)
    is_late = late_share > MAX_LATE_SHARE
    return f"{100 * late_share:.0f} % of the events sent late: the machine is too busy" if is_late else ""


LINK_BYTES_BENCHMARKS = [Benchmark("link bytes", link_bytes)]
