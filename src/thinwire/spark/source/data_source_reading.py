"""One part of a query, read: what a task does."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from thinwire.brokers.protocol_source import LogSource
from thinwire.spark.source.offset_plan_planning import Part
from thinwire.spark.source.source_options_options import Options
from thinwire.spark.source.source_schema import opened
from thinwire.spark.source.source_schema_schemas import fitted
from thinwire.spark.source.state_spool import Spool
from thinwire.topics.log_tables import Landing, Range, frames, messages


def read_part(options: Options, schema: pa.Schema, part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a part, with these columns."""
    with opened(options) as source:
        made = (
            _events(source, options, part, schema.names) if options.columns == "events" else _raw(source, options, part)
        )
        for batch in made:
            yield fitted(batch, schema)


def _raw(source: LogSource, options: Options, part: Part) -> Iterator[pa.RecordBatch]:
    read = frames if options.columns == "frames" else messages
    wanted = Range(part.first, part.last)
    return read(source, part.topic, wanted, fail_on_data_loss=options.fail_on_data_loss, log=part.log)


def _events(source: LogSource, options: Options, part: Part, columns: list[str]) -> Iterator[pa.RecordBatch]:
    spool = Spool(options.state_location)
    landing = Landing(
        source,
        part.topic,
        fail_on_data_loss=options.fail_on_data_loss,
        log=part.log,
        demand=options.demand,
        columns=columns,
    )
    yield from landing.rows(part.first, part.last, spool.get(part.follows) if part.follows else None)
    state = landing.state() if part.leaves else None
    if state is not None:
        spool.put(part.leaves, state)
    if part.drops:
        spool.forget(part.drops)
    spool.note(repr(part), landing.counted)
