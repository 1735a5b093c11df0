"""Dictionaries in the running system: what a kill does, what they cost the knee, whether switching disturbs anybody,
and how many messages must be joined until deflate does as well.

Compact frames of numbers are not packed (there is nothing in them that could be shared), so that the first knee shows
what looking after dictionaries costs; frames of JSON are, every one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from thinwire.dictionaries.byte_account import BATCHES
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.live_bench_live_knee import CALLED, OURS, rate_row, ratio_row
from thinwire_lab.live.delivery_audit_numbered import wrong
from thinwire_lab.live.dictionary_switch_switching import Switched, switched
from thinwire_lab.live.kill_test import LATEST_WITH_CLASSES, PUBLISHERS, SUBSCRIBERS, Victim, havoc
from thinwire_lab.live.linger_batches import FEW, MESSAGES, QUICK_BATCHES, RATE, balance, courses
from thinwire_lab.live.saturation_rate import QUICK, SHAPES, Plan, knees
from thinwire_lab.reproduce.dictionaries.policy_cells_opening import available, messages_of

PAIRS = {"compact frames": ("dictionaries", OURS), "frames of JSON": ("spelled out, dictionaries", "spelled out")}
"""what is searched with dictionaries and without"""
NOT_BELOW = 1.0
LOAD = 0.8
"""share of the knee at which dictionaries are switched"""
EVERY = 10.0
"""seconds"""
SLOWER = 2.0
KINDS = ("spelled out, dictionaries", "dictionaries")
"""what is switched: where every frame is packed, and what `thinwire bench live` measures"""
SEED = 1
TAXIS = ("debs-json", "taxi-json")
CALLED_VICTIMS: dict[Victim, str] = {"dictionaries": "dictionary service", "publisher": "publisher"}
FAULTS = "events missing, repeated, out of order or beyond their bound"


def knee(with_them: str, without: str, setting: Setting) -> Iterator[Row]:
    """With and without in the same run, in turn."""
    plan = QUICK if setting.quick else Plan()
    found = asyncio.run(knees([without, with_them], plan, setting.progress))
    for kind in (without, with_them):
        yield rate_row(found[kind], plan, low=None, judged=not setting.quick)
    yield ratio_row(found[with_them], found[without], NOT_BELOW)


def switching(setting: Setting) -> Iterator[Row]:
    """At most of the knee, which is searched first."""
    plan = QUICK if setting.quick else Plan(long=20.0, runs=1, precision=1.15)
    seconds, every = (6.0, 2.0) if setting.quick else (60.0, EVERY)
    for place, kind in enumerate(KINDS):
        found = asyncio.run(knees([kind], plan, lambda share: None))[kind]
        if not found.knee:
            yield Row(_name(kind, "events lost or out of order"), "failures", note="nothing was held", sound=False)
            continue
        outcome = asyncio.run(switched(SHAPES[kind], LOAD * found.knee, seconds, every))
        yield from rows_of_switching(kind, outcome, every)
        setting.progress((place + 1) / len(KINDS))


def rows_of_switching(kind: str, found: Switched, every: float) -> Iterator[Row]:
    """Was anything lost, and how much later did events come?"""
    round_, publishers = found.switching, SHAPES[kind].publishers
    how = f"{round_.rate:,.0f} events/s, {100 * LOAD:g} % of the knee, for {round_.seconds:g} s; "
    how += f"{publishers} publishers, 20 subscriber connections; another dictionary every {every:g} s: "
    how += f"{found.switches} switches, {found.bound} bindings in the log"
    # the first one, before the round, counts too; the last may come after the publishers have said all
    heard = found.bound >= publishers * found.switches
    note = "" if heard else "not every publisher went over each time"
    name = _name(kind, "events lost or out of order")
    yield Row(name, "failures", round_.lost, high=0, how=how, note=note, sound=heard)
    how = f"{round_.p99:.0f} ms against {found.steady.p99:.0f} ms with one dictionary, at the same rate"
    note = found.steady.trouble and f"without switching: {found.steady.trouble}"
    yield Row(_name(kind, "p99 to one dictionary"), "times", found.slower, high=SLOWER, how=how, note=note)


def _name(kind: str, what: str) -> str:
    return f"dictionaries switched, {CALLED[kind]}: {what}"


def kills(victim: Victim, setting: Setting) -> Iterator[Row]:
    """One victim, killed again and again, while every frame is packed."""
    found = asyncio.run(havoc(victim, setting.size(20, 2), SEED, setting.progress, dictionaries=True))
    worst = max(found.verdicts, key=lambda verdict: verdict.faults)
    how = f"{found.kills} kills within {LATEST_WITH_CLASSES:g} s of each other, seed {SEED}; {PUBLISHERS} publishers of"
    how += f" frames of JSON, {SUBSCRIBERS} durable subscribers, {found.events:,} events recorded"
    note = wrong(worst) if found.dictionary else "no dictionary was in use in the end"
    name = f"kill -9 of the {CALLED_VICTIMS[victim]}, dictionaries at work: {FAULTS}"
    yield Row(name, "failures", found.faults, high=0, how=how, note=note, sound=bool(found.dictionary))


def batches(setting: Setting) -> Iterator[Row]:
    """Joined during a linger and deflated as one, against a dictionary and no linger; reported, no bar."""
    data = None if setting.data is None else str(setting.data)
    stream = next(one.name for one in available(data) if one.name in TAXIS)
    messages = list(messages_of(stream, data, setting.size(MESSAGES, FEW)))
    found = asyncio.run(courses(messages, QUICK_BATCHES if setting.quick else BATCHES, progress=setting.progress))
    equal, alone = balance(found), found[0]
    how = f"{len(messages):,} messages, {RATE:g} a second, embedded broker, every message compared; {equal}; "
    how += f"with a dictionary {alone.each:.1f} bytes a message"
    yield Row(f"batches, {stream}: joined until deflate equals a dictionary", "messages", equal.joined, how=how)


BARS = [
    *(Bar(f"dictionary kill {victim}", partial(kills, victim)) for victim in CALLED_VICTIMS),
    *(Bar(f"dictionary knee, {frames}", partial(knee, *pair)) for frames, pair in PAIRS.items()),
    Bar("dictionaries switched", switching),
    Bar("batches instead of dictionaries", batches),
]
