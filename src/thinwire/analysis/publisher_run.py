"""Processor time of an event, as a live client spends it: one event in, its frames out, and back."""

from __future__ import annotations

from time import process_time
from typing import NamedTuple

import pyarrow as pa

from thinwire.analysis.event_columns import events_of
from thinwire.analysis.strategies_strategy import Packed
from thinwire.codec import LinkConfig, Publisher, Subscriber
from thinwire.dictionaries import Dictionary
from thinwire.errors import EventRejected
from thinwire.schema import Schema

SAMPLE = 2_000
"""events that are timed"""


class Price(NamedTuple):
    """Seconds an event at the publisher, and at a subscriber that is handed every event."""

    publish: float
    receive: float


def price(
    batch: pa.RecordBatch,
    schema: Schema,
    config: LinkConfig,
    packing: Packed = "none",
    dictionary: Dictionary | None = None,
) -> Price:
    """The median would need many runs; the second of two runs over the same events has warm caches and no compiling."""
    events = events_of(batch.slice(0, SAMPLE), schema)
    used = dictionary if packing == "dictionary" else None
    _timed(events[:100], schema, config, packing, used)
    return _timed(events, schema, config, packing, used)


def _timed(
    events: list[dict[str, object]], schema: Schema, config: LinkConfig, packing: Packed, used: Dictionary | None
) -> Price:
    publisher = Publisher(schema, config)
    subscriber = Subscriber([schema], dictionaries=lambda hash: used)
    messages = [publisher.start(0.0)]
    if packing != "none":
        publisher.await_dictionaries()
    if used is not None:
        messages.append(publisher.use(used, 1))
    begin = process_time()
    for event in events:
        try:
            messages.append(publisher.publish(event, 0.0))
        except EventRejected:
            continue
    between = process_time()
    messages.append(publisher.heartbeat(0.0))
    for frames in messages:
        for frame in frames:
            subscriber.receive(frame, now=0.0)
    return Price((between - begin) / len(events), (process_time() - between) / len(events))
