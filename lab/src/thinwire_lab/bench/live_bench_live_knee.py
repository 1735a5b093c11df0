"""The knee: the highest rate that is held, ours beside JSON with one message an event and with one a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.load_chain_outcome import Outcome
from thinwire_lab.live.saturation_rate import LINGER, QUICK, Knees, Plan, knees

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
    plan = QUICK if setting.quick else Plan()
    found = asyncio.run(knees([OURS, PER_EVENT, BATCHED, WHOLE], plan, setting.progress, beside=[WHOLE]))
    for kind in (OURS, WHOLE, PER_EVENT, BATCHED):
        yield rate_row(found[kind], plan, low=12_000.0 if kind == OURS else None, judged=not setting.quick)
    for kind, low in ((PER_EVENT, 2.0), (BATCHED, 1.3)):
        yield ratio_row(found[OURS], found[kind], low)
    yield ratio_row(found[WHOLE], found[BATCHED], None)


def rate_row(found: Knees, plan: Plan, low: float | None, judged: bool) -> Row:
    """The knee of one stack.

    judged: whether frames an event are looked at; introductions weigh too much in a quick run
    """
    how = f"{plan.how(len(found.rates))}; 4 publishers, 20 subscriber connections, two cores"
    how += f", linger {1000 * LINGER:g} ms" if found.kind != PER_EVENT else ""
    how += f"; runs: {', '.join(f'{rate:,.0f}' for rate in found.rates)}"
    if found.rounds:
        how += _in_words(found.rounds[-1])
    if found.failed is not None:
        how += f"; at {found.failed.rate:,.0f}: {found.failed.trouble}"
    share = found.rounds[-1].sent_share if found.rounds else 0.5
    strange = judged and found.kind in (OURS, WHOLE, CLASSES) and not SENT_SHARE[0] <= share <= SENT_SHARE[1]
    notes = [f"{share:.2f} frames an event, not 0.5"] if strange else []
    if found.others > BUSY:
        notes.append(f"something else used up to {found.others:.1f} cores meanwhile")
    name = f"knee, {CALLED[found.kind]}: events a second held"
    return Row(name, "events/s", found.knee, low=low, how=how, note=", ".join(notes), sound=not strange)


def _in_words(round_: Outcome) -> str:
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


BARS = [Bar("knee", knee)]
