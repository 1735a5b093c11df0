"""Kill -9 of each part of the system: every event once, within its bound, for survivors and for the restarted.

The knee: the highest rate that is held, ours beside JSON with one message an event and with one a batch.

Link bytes: all that is on the sockets of publishers and subscriber, ours to JSON over the same broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.delivery_audit import wrong
from thinwire_lab.live.kill_test import LATEST, PUBLISHERS, SUBSCRIBERS, Victim, havoc
from thinwire_lab.live.load_chain import LoadOutcome
from thinwire_lab.live.saturation_rate import LINGER, QUICK, Knees, SaturationPlan, knees
from thinwire_lab.live.wire_bytes import PLANTS, TOLERANCE, Wire, WireBytes, weigh

SEED = 1
VICTIMS: tuple[Victim, ...] = ("broker", "publisher", "subscriber", "registry")


def kills(victim: Victim, setting: Setting) -> Iterator[Row]:
    """One victim, killed again and again."""
    found = asyncio.run(havoc(victim, setting.size(20, 2), SEED, setting.progress))
    worst = max(found.verdicts, key=lambda verdict: verdict.faults)
    how = f"{found.kills} kills within {LATEST:g} s of each start, seed {SEED}; {PUBLISHERS} publishers,"
    how += f" {SUBSCRIBERS} durable subscribers, {found.events:,} events recorded"
    name = f"kill -9 of the {victim}: events missing, repeated, out of order or beyond their bound"
    yield Row(name, "failures", found.faults, high=0, how=how, note=wrong(worst))


KILL_REQUIREMENTS = [Bar(f"kill {victim}", partial(kills, victim)) for victim in VICTIMS]


OURS, WHOLE, PER_EVENT, BATCHED, CLASSES = "thinwire", "every event", "json", "json-batched", "five classes"
CALLED = {
    OURS: "thinwire, changes delivered",
    WHOLE: "thinwire, every event delivered",
    PER_EVENT: "JSON, one message an event",
    BATCHED: "JSON in batches",
    CLASSES: "thinwire, changes delivered to five classes",
    "dictionaries": "thinwire, changes delivered, dictionaries at work",
    "spelled out": "thinwire, changes delivered in frames of JSON",
    "spelled out, dictionaries": "thinwire, changes delivered in frames of JSON packed with dictionaries",
}
SENT_SHARE = (0.48, 0.52)
"""frames an event on this stream; anything else would be another measurement (introductions weigh in short runs)"""

BUSY = 0.3
"""cores used by something else from which on the row says so"""


def knee(setting: Setting) -> Iterator[Row]:
    """All of them in the same run, in turn."""
    plan = QUICK if setting.quick else SaturationPlan()
    found = asyncio.run(knees([OURS, PER_EVENT, BATCHED, WHOLE], plan, setting.progress, beside=[WHOLE]))
    for kind in (OURS, WHOLE, PER_EVENT, BATCHED):
        yield rate_row(found[kind], plan, low=12_000.0 if kind == OURS else None, judged=not setting.quick)
    for kind, low in ((PER_EVENT, 2.0), (BATCHED, 1.3)):
        yield ratio_row(found[OURS], found[kind], low)
    yield ratio_row(found[WHOLE], found[BATCHED], None)


def rate_row(found: Knees, plan: SaturationPlan, low: float | None, judged: bool) -> Row:
    """The knee of one stack.

    judged: whether frames an event are looked at; introductions weigh too much in a quick run
    """
    how = f"{plan.how(len(found.rates))}; 4 publishers, 20 subscriber connections, two cores"
    how += f", linger {1000 * LINGER:g} ms" if found.kind != PER_EVENT else ""
    how += f"; runs: {', '.join(f'{rate:,.0f}' for rate in found.rates)}"
    if found.rounds:
        how += _describe_outcome(found.rounds[-1])
    if found.failed is not None:
        how += f"; at {found.failed.rate:,.0f}: {found.failed.trouble}"
    share = found.rounds[-1].sent_share if found.rounds else 0.5
    strange = judged and found.kind in (OURS, WHOLE, CLASSES) and not SENT_SHARE[0] <= share <= SENT_SHARE[1]
    notes = [f"{share:.2f} frames an event, not 0.5"] if strange else []
    if found.others > BUSY:
        notes.append(f"something else used up to {found.others:.1f} cores meanwhile")
    name = f"knee, {CALLED[found.kind]}: events a second held"
    return Row(name, "events/s", found.knee, low=low, how=how, note=", ".join(notes), sound=not strange)


def _describe_outcome(round_: LoadOutcome) -> str:
    cores = ", ".join(f"{role} {used:.2f}" for role, used in round_.cpu.items())
    text = (
        f"; p99 {round_.p99:.0f} ms, p50 {round_.p50:.0f} ms, {round_.sent_share:.2f} frames an event; cores: {cores}"
    )
    return text + (f"; memory {100 * round_.grown:+.1f} % at most" if round_.grown is not None else "")


def ratio_row(ours: Knees, theirs: Knees, low: float | None) -> Row:
    """One knee to another of the same run."""
    name = f"knee, {CALLED[ours.kind]}, to {CALLED[theirs.kind]}"
    how = f"{ours.knee:,.0f} to {theirs.knee:,.0f} events/s, medians of the same run"
    value = ours.knee / theirs.knee if theirs.knee else None
    note = "" if theirs.knee else "nothing was held"
    return Row(name, "times", value, low=low, how=how, note=note, sound=bool(theirs.knee))


SATURATION_REQUIREMENTS = [Bar("knee", knee)]


RATE = 20.0
"""events a second of each plant in the rows that have a bar"""
OTHER_RATES = (1.0, 200.0)
BEHIND = 0.05
"""share of events that may leave late before the figure says nothing"""
BARS_BY_LINGER = {0.005: 1 / 4, 0.1: 1 / 10}


def link_bytes(setting: Setting) -> Iterator[Row]:
    """Ours with two lingers, at three rates."""
    seconds = float(setting.size(60, 5))
    rates = (RATE, *OTHER_RATES)
    plain = {rate: Wire("json", 0.0, rate) for rate in rates}
    ours = [Wire("thinwire", linger, rate) for rate in rates for linger in BARS_BY_LINGER]
    batched = [Wire("json-batched", linger, RATE) for linger in BARS_BY_LINGER]
    every = [*plain.values(), *ours, *batched]
    weights: dict[Wire, WireBytes] = {}
    for place, rate in enumerate(rates):
        weights |= asyncio.run(weigh([wire for wire in every if wire.rate == rate], seconds))
        setting.progress((place + 1) / len(rates))
    for wire in [*ours, *batched]:
        yield _row(weights[wire], weights[plain[wire.rate]], seconds)


def _row(weight: WireBytes, plain: WireBytes, seconds: float) -> Row:
    wire = weight.wire
    what = "thinwire" if wire.kind == "thinwire" else "JSON in batches"
    name = f"link bytes, {what}, linger {1000 * wire.linger:g} ms, {wire.rate:g} events/s a publisher: to JSON"
    bar = BARS_BY_LINGER[wire.linger] if wire.kind == "thinwire" and wire.rate == RATE else None
    how = f"building, {PLANTS} plants for {seconds:g} s, within {TOLERANCE:g}: {weight.per_event:,.0f} bytes an event"
    how += (
        f" ({weight.to_broker / weight.events:,.0f} to the broker, {weight.from_broker / weight.events:,.0f} from it)"
    )
    how += f" against {plain.per_event:,.0f}; set-up apart: {weight.set_up:,} and {plain.set_up:,} bytes"
    how += f"; {weight.sent / weight.events:.2f} of the events travelled"
    note = _trouble(weight, plain)
    return Row(name, "part", weight.per_event / plain.per_event, high=bar, how=how, note=note, sound=not note)


def _trouble(*weights: WireBytes) -> str:
    if not all(weight.complete for weight in weights):
        return "not every event arrived"
    behind = max(weight.behind for weight in weights)
    return f"{100 * behind:.0f} % of the events left late: the machine is too busy" if behind > BEHIND else ""


LINK_BYTES_REQUIREMENTS = [Bar("link bytes", link_bytes)]
