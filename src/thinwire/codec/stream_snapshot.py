"""A link's whole state at one place of its stream, as bytes: whoever takes it up goes on with the next frame.

A key frame tells what a reader must know to start; a checkpoint also keeps what it has learned since: exact scales, the
tables of texts, what slots name, the running check, the frames it knows again. So the reader that takes it up stands
exactly where the other one stood, and everything after it comes out bit for bit the same.

>>> from thinwire.schema import Event, Property, Schema
>>> from thinwire.codec import Publisher, Subscriber
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> publisher = Publisher(rooms, name="p1", compiled=False)
>>> frames = publisher.start(now=0) + publisher.publish({"room": "11.1", "t": 20.5}, now=0)
>>> subscriber = Subscriber([rooms], publisher="p1", compiled=False)
>>> into_subscriber(subscriber, of_publisher(publisher))
>>> [dict(event) for event in subscriber.receive(publisher.publish({"room": "11.1", "t": 20.9}, now=1)[0], now=1)]
[{'room': '11.1', 't': 20.9}]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinwire.codec import snapshot_sections_sections as sections
from thinwire.codec import stream_snapshot_rows as rows
from thinwire.codec.decoder_state_replica import Replica
from thinwire.codec.frame_handlers_memory import Memory
from thinwire.codec.snapshot_sections import Header, seal, unpack, unseal, write_json
from thinwire.codec.source_table_columns import Columns
from thinwire.codec.stream_decoder import State, Subscriber
from thinwire.codec.stream_encoder import Publisher
from thinwire.errors import CorruptCheckpoint, CorruptFrame
from thinwire.wire import Binding, KeyFrame, LinkState
from thinwire.wire.stream_state import WIDE

Key = tuple[Any, ...]

_SECTIONS = 8
"""and one more where slots name dictionaries"""


def of_subscriber(subscriber: Subscriber) -> bytes:
    """Where a subscriber stands, which must be READY."""
    replica = subscriber.replica
    if replica is None or subscriber.state is not State.READY:
        raise ValueError(f"only a subscriber that is ready has a state to keep: this one is {subscriber.state}")
    expander = replica.expander
    columns, keys = expander.columns, expander.keys
    header = Header(
        subscriber.publisher,
        replica.incarnation,
        replica.config_version,
        replica.fingerprint,
        replica.rules_told,
        cells=[],
        rows=len(keys),
        position=subscriber.position,
        sizes=[],
    )
    learned = (
        sections.write_told(expander.told_exactly()),
        write_json(subscriber.memory.entries(set(keys))),
        sections.write_recent(replica.recent.hashes()),
    )
    return _write(header, replica.link, columns, keys, learned, replica.bindings.in_force())


def of_publisher(publisher: Publisher) -> bytes:
    """Where a subscriber stands that has received all of a publisher's frames, which must have told its silence."""
    if publisher.untold:
        raise ValueError("events were passed over in silence that no frame has told: send a heartbeat first")
    encoder = publisher.encoder
    reducer = encoder.reducer
    header = Header(
        publisher.name,
        publisher.incarnation,
        publisher.config.version,
        publisher.schema.fingerprint,
        reducer.rules.encode(),
        cells=[],
        rows=len(reducer.keys),
        position=None,
        sizes=[],
    )
    nothing = b"", write_json([]), b""
    return _write(header, encoder.link, reducer.columns, reducer.keys, nothing, encoder.packer.in_force())


def into_subscriber(subscriber: Subscriber, data: bytes) -> None:
    """Let a new subscriber stand where the checkpoint was taken; nothing is delivered.

    Raises CorruptCheckpoint, or UnknownSchema, and nothing has changed then.
    """
    try:
        replica, memory, position = _read(subscriber, data)
    except CorruptFrame as problem:
        raise CorruptCheckpoint(problem.detail, **problem.facts) from None
    subscriber.stand_at(replica, memory, position)


def _write(
    header: Header,
    link: LinkState,
    columns: Columns,
    keys: Sequence[Key | None],
    learned: tuple[bytes, bytes, bytes],
    bindings: Sequence[Binding],
) -> bytes:
    cells, tables = link.state()
    parts = (
        rows.take(columns),
        sections.write_keys(keys),
        write_json(tables),
        rows.take_objects(columns),
        rows.take_near(columns),
        *learned,
        *([sections.write_bindings(bindings)] if bindings else []),
    )
    return seal(header._replace(cells=cells), parts)


def _read(subscriber: Subscriber, data: bytes) -> tuple[Replica, Memory, int | None]:
    header, packed = unseal(data)
    if header.publisher != subscriber.publisher:
        raise CorruptFrame("of another publisher", publisher=header.publisher, expected=subscriber.publisher)
    if header.rows > subscriber.max_sources:
        raise CorruptFrame("more sources than this reader takes", rows=header.rows, limit=subscriber.max_sources)
    replica = _replica(subscriber, header)
    columns = replica.expander.columns
    bound = len(header.sizes) > _SECTIONS
    cells, *others = unpack(packed, header.sizes, _SECTIONS + bound, rows.most(columns, header.rows))
    keys, tables, objects, near, told, remembered, recent, *last = (bytes(part) for part in others)
    replica.bindings.restore(sections.read_bindings(last[0] if last else b""))
    replica.link.restore(header.cells, sections.read_tables(tables))
    rows.restore(columns, header.rows, cells)
    rows.restore_objects(columns, objects)
    rows.restore_near(columns, near)
    sections.know(replica.expander, sections.read_keys(keys, header, replica.expander.rules.schema))
    for row, exacts in sections.read_told(told, replica.expander):
        replica.expander.introduced(row, exacts)
    replica.recent.restore(sections.read_recent(recent))
    memory = Memory()
    memory.restore(sections.read_memory(remembered))
    return replica, memory, header.position


def _replica(subscriber: Subscriber, header: Header) -> Replica:
    """The replica to fill, as the key frame at this place would begin it."""
    if len(header.cells) <= WIDE:
        raise CorruptFrame("a place in the stream that does not fit the schema", cells=len(header.cells))
    key = KeyFrame(
        header.incarnation, 0, header.config_version, header.fingerprint, header.rules, b"", header.rows, 0, ()
    )
    return subscriber.begin(key, wide=bool(header.cells[WIDE]))
