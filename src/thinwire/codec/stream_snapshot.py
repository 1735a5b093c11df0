"""A link's whole state at one place of its stream, as bytes: whoever takes it up goes on with the next frame.

A key frame tells what a reader must know to start; a checkpoint also keeps what it has learned since: exact scales, the
tables of texts, what slots name, the running check, the frames it knows again. So the reader that takes it up stands
exactly where the other one stood, and everything after it comes out bit for bit the same.

>>> from thinwire.schema import Event, Property, Schema
>>> from thinwire.codec import StreamEncoder, StreamDecoder
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> publisher = StreamEncoder(rooms, name="p1", compiled=False)
>>> frames = publisher.start(now=0) + publisher.publish({"room": "11.1", "t": 20.5}, now=0)
>>> subscriber = StreamDecoder([rooms], publisher="p1", compiled=False)
>>> into_subscriber(subscriber, of_publisher(publisher))
>>> [dict(event) for event in subscriber.receive(publisher.publish({"room": "11.1", "t": 20.9}, now=1)[0], now=1)]
[{'room': '11.1', 't': 20.9}]

The rows of all sources at once, as bytes for a checkpoint, and back: checked as in key frames, but by the column.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.codec import snapshot_sections as sections
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.frame_handlers import DeliveredOrdinals
from thinwire.codec.predictors import predictor as steps
from thinwire.codec.rules import Rule
from thinwire.codec.snapshot_sections import SnapshotHeader, seal, unpack, unseal, write_json
from thinwire.codec.source_table import (
    COEFFICIENTS,
    FIELDS,
    HEAD,
    MAX_COEFFICIENTS,
    MODE,
    OFFSET,
    ORDINAL,
    TREND,
    X1,
    X2,
    SourceTable,
)
from thinwire.codec.stream_decoder import State, StreamDecoder
from thinwire.codec.stream_encoder import StreamEncoder
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.errors import CorruptCheckpoint, CorruptFrame
from thinwire.wire import Binding, KeyFrame, LinkState
from thinwire.wire import exact_value as exact
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.stream_state import WIDE

Cells = npt.NDArray[np.int64]

_FIXED_LIMIT = 1 << 48
"""256ths of a tick: offsets and trends are at most this large"""

_FIELD_LIMITS = (
    (OFFSET, -_FIXED_LIMIT, _FIXED_LIMIT, False),
    (TREND, -_FIXED_LIMIT, _FIXED_LIMIT, True),
    (COEFFICIENTS, 0, MAX_COEFFICIENTS - 1, False),
    (MODE, 0, 2 * steps.FINE - 1, False),
)
"""fields of a slot that are no ticks: the lowest and the highest value, and whether ABSENT stands for none"""

_PLACE = 4
_OF_LANE = {EncodingKind.TEXT: str, EncodingKind.ARRAY: tuple, EncodingKind.OPAQUE: bytes}


def take(columns: SourceTable) -> bytes:
    """The cells of all rows, without what a publisher notes in them for itself.

    First those that are the same in every row, once; then the others, each for all rows; then which is which.
    """
    if not columns.rows:
        return b""
    cells = np.empty((columns.width, columns.rows), dtype=np.int64)
    cells[:] = columns.by_row().T
    cells[ORDINAL + 1 : HEAD] = 0
    varies = (cells != cells[:, :1]).any(axis=1)
    return b"".join((cells[~varies, 0].tobytes(), cells[varies].tobytes(), varies.tobytes()))


def most(columns: SourceTable, rows: int) -> int:
    """The bytes that the cells of so many rows take, at most."""
    return columns.width * (1 + rows * columns.table.itemsize)


def restore(columns: SourceTable, rows: int, data: memoryview) -> None:
    """Fill empty columns with so many rows; refuses cells that no row can have."""
    if not rows:
        return
    cells = _lines(columns, rows, data)
    _check_ranges(columns, cells)
    for rule in columns.rules.rules:
        for slot in range(rule.first_slot, rule.first_slot + rule.slots):
            _check_slot(columns, rule, slot, cells[HEAD + slot * FIELDS : HEAD + (slot + 1) * FIELDS])
    columns.begin(rows)
    columns.by_row()[:] = cells.T
    columns.moving[:] = _moving(columns, cells)


def take_objects(columns: SourceTable) -> bytes:
    """The texts, arrays and opaque values of all rows: each different one once, and which of them a row has."""
    parts: list[bytes] = []
    for rule, column in zip(columns.rules.rules, columns.objects, strict=True):
        if not rule.slots:
            places: dict[Any, int] = {}
            held = [places.setdefault(thing, len(places)) for thing in column]
            parts += (exact.encode(list(places)), array("I", held).tobytes())
    return b"".join(parts)


def restore_objects(columns: SourceTable, data: bytes) -> None:
    """The same on the way back, into columns whose rows are there."""
    at = 0
    for rule, column in zip(columns.rules.rules, columns.objects, strict=True):
        if not rule.slots:
            things, at = exact.decode(data, at)
            if not isinstance(things, list):
                raise CorruptFrame("objects are a list", property=rule.property.name)
            end = at + _PLACE * columns.rows
            held = _places(data[at:end], len(things))
            if len(held) != columns.rows:
                raise CorruptFrame("objects do not fit the rows", property=rule.property.name, rows=columns.rows)
            meant = [_meant(rule, thing) for thing in things]
            column[:] = [meant[place] for place in held]
            at = end
    if at != len(data):
        raise CorruptFrame("objects do not fit the schema", length=len(data), read=at)


def take_near(columns: SourceTable) -> bytes:
    """The rows whose state is only near to their last event."""
    return array("I", [row for row in columns.near if columns.is_near(row)]).tobytes()


def restore_near(columns: SourceTable, data: bytes) -> None:
    """The same on the way back, into columns whose rows are there."""
    columns.near.update((row, columns.ordinal(row)) for row in _places(data, columns.rows))


def _places(data: bytes, count: int) -> array[int]:
    """Places among `count` things."""
    if len(data) % _PLACE:
        raise CorruptFrame("a list of places is cut off", length=len(data))
    places = array("I", data)
    if places and max(places) >= count:
        raise CorruptFrame("a place beyond the last", place=max(places), count=count)
    return places


def _lines(columns: SourceTable, rows: int, data: memoryview) -> Cells:
    """One line a cell, one column a row."""
    width, size = columns.width, columns.table.itemsize
    varies = np.frombuffer(data[-width:], dtype=np.uint8) if len(data) > width else np.zeros(0, dtype=np.uint8)
    other = int(varies.sum())
    if len(varies) != width or varies.max() > 1 or len(data) != width + size * (width - other + other * rows):
        raise CorruptFrame("rows do not fit the schema", length=len(data), rows=rows, width=width)
    numbers: Cells = np.frombuffer(data[:-width], dtype=np.int64)
    cells = np.empty((width, rows), dtype=np.int64)
    cells[varies == 0] = numbers[: width - other, np.newaxis]
    cells[varies == 1] = numbers[width - other :].reshape(other, rows)
    return cells


def _check_ranges(columns: SourceTable, cells: Cells) -> None:
    """Is every cell within its limits, or absent where it may be? Floats are looked at as what they are."""
    lowest, highest, may_be_absent = _limits(columns)
    low = cells.min(axis=1)
    bad = (cells.max(axis=1) > highest) | ((low < lowest) & ~may_be_absent)
    for cell in np.flatnonzero((low < lowest) & may_be_absent):
        present = cells[cell][cells[cell] != ABSENT]
        bad[cell] |= len(present) and present.min() < lowest[cell]
    if bad.any():
        raise CorruptFrame("state beyond all limits", cell=int(np.flatnonzero(bad)[0]))


def _limits(columns: SourceTable) -> tuple[Cells, Cells, npt.NDArray[np.bool_]]:
    """The lowest and the highest value of each cell of a row, and where ABSENT stands for none."""
    lowest, highest = np.full(columns.width, -TICK_LIMIT), np.full(columns.width, TICK_LIMIT)
    may_be_absent = np.ones(columns.width, dtype=bool)
    lowest[:HEAD] = highest[ORDINAL + 1 : HEAD] = 0
    may_be_absent[:HEAD] = False
    for field, low, high, absent in _FIELD_LIMITS:
        cells = slice(HEAD + field, HEAD + FIELDS * columns.slots, FIELDS)
        lowest[cells], highest[cells], may_be_absent[cells] = low, high, absent
    for rule in columns.rules.rules:
        if rule.lane is EncodingKind.FLOAT:
            first = HEAD + rule.first_slot * FIELDS
            lowest[first : first + FIELDS], highest[first : first + FIELDS] = ABSENT, -(ABSENT + 1)
    return lowest, highest, may_be_absent


def _check_slot(columns: SourceTable, rule: Rule, slot: int, fields: Cells) -> None:
    """Is the slot a number where it is a float, and else does its predictor exist and have what it reads?"""
    present = fields[X1] != ABSENT
    if rule.lane is EncodingKind.FLOAT:
        good = np.isfinite(fields[X1].view(np.float64)) | ~present
    else:
        kind = fields[MODE] & 15
        good = (kind < steps.MODES) & ~((kind == steps.LINEAR) & present & (fields[X2] == ABSENT))
        if not columns.period[slot]:
            good &= kind != steps.SEASONAL
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise CorruptFrame("a float that is no number, or no such predictor", property=rule.property.name, row=row)


def _moving(columns: SourceTable, cells: Cells) -> list[int]:
    """What `SourceTable.note_moving` finds, for all rows."""
    rules = columns.rules.rules
    words = np.zeros((len(rules) // 64 + 1, columns.rows), dtype=np.uint64)
    for index, rule in enumerate(rules):
        if rule.lane in (EncodingKind.TICK, EncodingKind.GEO):
            moves = cells[HEAD + rule.first_slot * FIELDS + MODE] & 15 != 0
            moves |= bool(columns.period[rule.first_slot])
            words[index // 64] |= moves.astype(np.uint64) << np.uint64(index % 64)
    moving: list[int] = words[0].tolist()
    for number, word in enumerate(words[1:], start=1):
        moving = [low | high << 64 * number for low, high in zip(moving, word.tolist(), strict=True)]
    return moving


def _meant(rule: Rule, thing: Any) -> Any:
    """An object as the state holds it."""
    if isinstance(thing, list):
        thing = tuple(thing)
    good = thing is None or isinstance(thing, _OF_LANE[rule.lane])
    if good and isinstance(thing, tuple):
        good = all(isinstance(ticks, int) and abs(ticks) <= TICK_LIMIT for ticks in thing)
    if not good:
        raise CorruptFrame("state of another kind than the property", property=rule.property.name)
    return thing


Key = tuple[Any, ...]

_SECTIONS = 8
"""and one more where slots name dictionaries"""


def of_subscriber(subscriber: StreamDecoder) -> bytes:
    """Where a subscriber stands, which must be READY."""
    decoder_state = subscriber.decoder_state
    if decoder_state is None or subscriber.state is not State.READY:
        raise ValueError(f"only a subscriber that is ready has a state to keep: this one is {subscriber.state}")
    expander = decoder_state.expander
    columns, keys = expander.columns, expander.keys
    header = SnapshotHeader(
        subscriber.publisher,
        decoder_state.incarnation,
        decoder_state.config_version,
        decoder_state.fingerprint,
        decoder_state.rules_told,
        cells=[],
        rows=len(keys),
        position=subscriber.position,
        sizes=[],
    )
    learned = (
        sections.write_exact_values(expander.exact_values()),
        write_json(subscriber.memory.entries(set(keys))),
        sections.write_recent(decoder_state.recent.hashes()),
    )
    return _write(header, decoder_state.link, columns, keys, learned, decoder_state.bindings.in_force())


def of_publisher(publisher: StreamEncoder) -> bytes:
    """Where a subscriber stands that has received all of a publisher's frames, which must have told its silence."""
    if publisher.has_unsent_suppressed:
        raise ValueError("events were passed over in silence that no frame has told: send a heartbeat first")
    encoder = publisher.encoder
    reducer = encoder.reducer
    header = SnapshotHeader(
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


def into_subscriber(subscriber: StreamDecoder, data: bytes) -> None:
    """Let a new subscriber stand where the checkpoint was taken; nothing is delivered.

    Raises CorruptCheckpoint, or UnknownSchema, and nothing has changed then.
    """
    try:
        decoder_state, memory, position = _read(subscriber, data)
    except CorruptFrame as problem:
        raise CorruptCheckpoint(problem.detail, **problem.facts) from None
    subscriber.stand_at(decoder_state, memory, position)


def _write(
    header: SnapshotHeader,
    link: LinkState,
    columns: SourceTable,
    keys: Sequence[Key | None],
    learned: tuple[bytes, bytes, bytes],
    bindings: Sequence[Binding],
) -> bytes:
    cells, tables = link.state()
    parts = (
        take(columns),
        sections.write_keys(keys),
        write_json(tables),
        take_objects(columns),
        take_near(columns),
        *learned,
        *([sections.write_bindings(bindings)] if bindings else []),
    )
    return seal(header._replace(cells=cells), parts)


def _read(subscriber: StreamDecoder, data: bytes) -> tuple[DecoderState, DeliveredOrdinals, int | None]:
    header, packed = unseal(data)
    if header.publisher != subscriber.publisher:
        raise CorruptFrame("of another publisher", publisher=header.publisher, expected=subscriber.publisher)
    if header.rows > subscriber.max_sources:
        raise CorruptFrame("more sources than this reader takes", rows=header.rows, limit=subscriber.max_sources)
    decoder_state = _decoder_state(subscriber, header)
    columns = decoder_state.expander.columns
    bound = len(header.sizes) > _SECTIONS
    cells, *others = unpack(packed, header.sizes, _SECTIONS + bound, most(columns, header.rows))
    keys, tables, objects, near, told, remembered, recent, *last = (bytes(part) for part in others)
    decoder_state.bindings.restore(sections.read_bindings(last[0] if last else b""))
    decoder_state.link.restore(header.cells, sections.read_tables(tables))
    restore(columns, header.rows, cells)
    restore_objects(columns, objects)
    restore_near(columns, near)
    sections.know(decoder_state.expander, sections.read_keys(keys, header, decoder_state.expander.rules.schema))
    for row, exacts in sections.read_exact_values(told, decoder_state.expander):
        decoder_state.expander.introduced(row, exacts)
    decoder_state.recent.restore(sections.read_recent(recent))
    memory = DeliveredOrdinals()
    memory.restore(sections.read_memory(remembered))
    return decoder_state, memory, header.position


def _decoder_state(subscriber: StreamDecoder, header: SnapshotHeader) -> DecoderState:
    """The replica to fill, as the key frame at this place would begin it."""
    if len(header.cells) <= WIDE:
        raise CorruptFrame("a place in the stream that does not fit the schema", cells=len(header.cells))
    key = KeyFrame(
        header.incarnation, 0, header.config_version, header.fingerprint, header.rules, b"", header.rows, 0, ()
    )
    return subscriber.begin(key, wide=bool(header.cells[WIDE]))
