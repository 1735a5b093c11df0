"""Snapshot of the complete state of a stream at one position, as bytes. A decoder restored from it continues with the
next frame.

A key frame contains what a decoder needs to start. A snapshot also contains what it received since: exact scales, text
tables, dictionary bindings, the running check, and the hashes of recent frames. A restored decoder therefore produces
exactly the same events.

>>> from thinwire.schema import Event, Property, Schema
>>> from thinwire.codec import StreamEncoder, StreamDecoder
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> publisher = StreamEncoder(rooms, name="p1", compiled=False)
>>> frames = publisher.start(now=0) + publisher.publish({"room": "11.1", "t": 20.5}, now=0)
>>> decoder = StreamDecoder([rooms], publisher="p1", compiled=False)
>>> restore_decoder(decoder, snapshot_encoder(publisher))
>>> [dict(event) for event in decoder.receive(publisher.publish({"room": "11.1", "t": 20.9}, now=1)[0], now=1)]
[{'room': '11.1', 't': 20.9}]
"""

from __future__ import annotations

from collections.abc import Sequence

from thinwire.codec import snapshot_sections as sections
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.row_map import Source
from thinwire.codec.snapshot_sections import SnapshotHeader, seal, unpack, unseal, write_json
from thinwire.codec.source_table import SourceTable
from thinwire.codec.stream_decoder import State, StreamDecoder
from thinwire.codec.stream_encoder import StreamEncoder
from thinwire.codec.succession import DeliveredOrdinals
from thinwire.codec.table_snapshot import (
    max_size,
    restore_approximate,
    restore_objects,
    restore_rows,
    snapshot_approximate,
    snapshot_objects,
    snapshot_rows,
)
from thinwire.errors import CorruptCheckpoint, CorruptFrame
from thinwire.wire import Binding, KeyFrame, StreamState
from thinwire.wire.stream_state import WIDE

_SECTIONS = 8
"""number of sections; one more if there are dictionary bindings"""


def snapshot_decoder(decoder: StreamDecoder) -> bytes:
    """Return the snapshot of a decoder, which must be READY."""
    decoder_state = decoder.decoder_state
    if decoder_state is None or decoder.state is not State.READY:
        raise ValueError(f"only a decoder that is ready has a snapshot; this one is {decoder.state}")
    expander = decoder_state.expander
    table, keys = expander.table, expander.keys
    header = SnapshotHeader(
        decoder.publisher,
        decoder_state.incarnation,
        decoder_state.config_version,
        decoder_state.fingerprint,
        decoder_state.encoded_rules,
        len(keys),
        decoder.position,
    )
    received = (
        sections.write_exact_values(expander.exact_values()),
        write_json(decoder.delivered.entries(set(keys))),
        sections.write_recent(decoder_state.sequencer.dedup.hashes()),
    )
    return _write(header, decoder_state.stream, table, keys, received, decoder_state.bindings.active())


def snapshot_encoder(encoder: StreamEncoder) -> bytes:
    """Return the snapshot of a decoder that has received all frames of an encoder."""
    if encoder.has_unsent_suppressed:
        raise ValueError("there are suppressed events that no frame has reported; send a heartbeat first")
    frames = encoder.frame_encoder
    reducer = frames.reducer
    header = SnapshotHeader(
        encoder.name,
        encoder.incarnation,
        encoder.config.version,
        encoder.schema.fingerprint,
        reducer.rules.encode(),
        len(reducer.keys),
    )
    nothing = b"", write_json([]), b""
    return _write(header, frames.stream, reducer.table, reducer.keys, nothing, frames.packer.active())


def restore_decoder(decoder: StreamDecoder, data: bytes) -> None:
    """Restore a snapshot into a new decoder. Nothing is delivered.

    Raises CorruptCheckpoint or UnknownSchema without any effect.
    """
    try:
        decoder_state, delivered, position = _read(decoder, data)
    except CorruptFrame as problem:
        raise CorruptCheckpoint(problem.detail, **problem.facts) from None
    decoder.restore(decoder_state, delivered, position)


def _write(
    header: SnapshotHeader,
    stream: StreamState,
    table: SourceTable,
    keys: Sequence[Source | None],
    received: tuple[bytes, bytes, bytes],
    bindings: Sequence[Binding],
) -> bytes:
    cells, tables = stream.state()
    parts = (
        snapshot_rows(table),
        sections.write_keys(keys),
        write_json(tables),
        snapshot_objects(table),
        snapshot_approximate(table),
        *received,
        *([sections.write_bindings(bindings)] if bindings else []),
    )
    return seal(header._replace(cells=cells), parts)


def _read(decoder: StreamDecoder, data: bytes) -> tuple[DecoderState, DeliveredOrdinals, int | None]:
    header, packed = unseal(data)
    if header.publisher != decoder.publisher:
        raise CorruptFrame("snapshot of another publisher", publisher=header.publisher, expected=decoder.publisher)
    if header.rows > decoder.max_sources:
        raise CorruptFrame("more sources than the decoder accepts", rows=header.rows, limit=decoder.max_sources)
    decoder_state = _decoder_state(decoder, header)
    table = decoder_state.expander.table
    bound = len(header.sizes) > _SECTIONS
    cells, *others = unpack(packed, header.sizes, _SECTIONS + bound, max_size(table, header.rows))
    keys, tables, objects, approximate, exact, delivered_part, recent, *last = (bytes(part) for part in others)
    decoder_state.bindings.restore(sections.read_bindings(last[0] if last else b""))
    decoder_state.stream.restore(header.cells, sections.read_tables(tables))
    restore_rows(table, header.rows, cells)
    restore_objects(table, objects)
    restore_approximate(table, approximate)
    sections.set_sources(decoder_state.expander, sections.read_keys(keys, header, decoder_state.expander.rules.schema))
    for row, exacts in sections.read_exact_values(exact, decoder_state.expander):
        decoder_state.expander.first_event(row, exacts)
    decoder_state.sequencer.dedup.restore(sections.read_recent(recent))
    delivered = {source: (incarnation, last) for source, incarnation, last in sections.read_delivered(delivered_part)}
    return decoder_state, DeliveredOrdinals(delivered), header.position


def _decoder_state(decoder: StreamDecoder, header: SnapshotHeader) -> DecoderState:
    """Return the empty state to fill, as for a key frame at this position."""
    if len(header.cells) <= WIDE:
        raise CorruptFrame("stream state does not fit the schema", cells=len(header.cells))
    key = KeyFrame(
        header.incarnation, 0, header.config_version, header.fingerprint, header.rules, b"", header.rows, 0, ()
    )
    return decoder.new_state(key, wide=bool(header.cells[WIDE]))
