"""Link bytes: all that is on the sockets of publishers and subscriber, ours to JSON over the same broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from thinwire.evaluation.bench.bar import Bar, Row, Setting
from thinwire.evaluation.live.wires import PLANTS, TOLERANCE, Weight, Wire, weigh

RATE = 20.0
"""events a second of each plant in the rows that have a bar"""
OTHER_RATES = (1.0, 200.0)
BARS_BY_LINGER = {0.005: 1 / 4, 0.1: 1 / 10}


def link_bytes(setting: Setting) -> Iterator[Row]:
    """Ours with two lingers, at three rates."""
    seconds = float(setting.size(60, 5))
    rates = (RATE, *OTHER_RATES)
    plain = {rate: Wire("json", 0.0, rate) for rate in rates}
    ours = [Wire("thinwire", linger, rate) for rate in rates for linger in BARS_BY_LINGER]
    batched = [Wire("json-batched", linger, RATE) for linger in BARS_BY_LINGER]
    weights = asyncio.run(weigh([*plain.values(), *ours, *batched], seconds))
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
    complete = weight.complete and plain.complete
    note = "" if complete else "not every event arrived"
    return Row(name, "part", weight.per_event / plain.per_event, high=bar, how=how, note=note, sound=complete)


BARS = [Bar("link bytes", link_bytes)]
