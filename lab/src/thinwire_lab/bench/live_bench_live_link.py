"""Link bytes: all that is on the sockets of publishers and subscriber, ours to JSON over the same broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.wire_bytes import PLANTS, TOLERANCE, Weight, Wire, weigh

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
    weights: dict[Wire, Weight] = {}
    for place, rate in enumerate(rates):
        weights |= asyncio.run(weigh([wire for wire in every if wire.rate == rate], seconds))
        setting.progress((place + 1) / len(rates))
    for wire in [*ours, *batched]:
        yield _row(weights[wire], weights[plain[wire.rate]], seconds)


def _row(weight: Weight, plain: Weight, seconds: float) -> Row:
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


def _trouble(*weights: Weight) -> str:
    if not all(weight.complete for weight in weights):
        return "not every event arrived"
    behind = max(weight.behind for weight in weights)
    return f"{100 * behind:.0f} % of the events left late: the machine is too busy" if behind > BEHIND else ""


BARS = [Bar("link bytes", link_bytes)]
