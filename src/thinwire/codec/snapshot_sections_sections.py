"""The sections of a checkpoint beside the rows: keys, tables of texts, and what a subscriber has learned meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from thinwire.codec import Expander
from thinwire.codec.decoder_state_recent import HASH_BYTES
from thinwire.codec.snapshot_sections import Header, is_whole, read_json, write_json
from thinwire.errors import CorruptFrame
from thinwire.schema import Schema
from thinwire.wire import Binding, varint
from thinwire.wire import exact_value as exact
from thinwire.wire.stream_state import SOURCES, TableState

Key = tuple[Any, ...]
Exacts = tuple[tuple[int, Any], ...]


def know(expander: Expander, keys: list[Key | None]) -> None:
    """Know all sources at once, whose columns are in place."""
    expander.keys[:] = keys
    expander.abouts[:] = [None] * (2 * len(keys))
    for virtual, bounds in enumerate((expander.bounds, expander.silent_bounds)):
        shared = expander.publisher, expander.incarnation, bool(virtual), False, ()
        expander.abouts[virtual::2] = zip(repeat(bounds), keys, *map(repeat, shared), strict=False)
    for row in _unknown(keys):
        expander.abouts[2 * row : 2 * row + 2] = None, None


def write_keys(keys: Sequence[Key | None]) -> bytes:
    """The values of each dimension, and the rows of no source."""
    known = [key for key in keys if key is not None]
    dimensions = range(len(known[0]) if known else 0)
    return write_json([_unknown(keys), *([key[k] for key in known] for k in dimensions)])


def read_keys(data: bytes, header: Header, schema: Schema) -> list[Key | None]:
    """The keys of all rows; looked at by the dimension, which is many times faster than by the key."""
    listed = read_json(data)
    if not isinstance(listed, list) or not all(isinstance(values, list) for values in listed) or not listed:
        raise CorruptFrame("keys are a list of lists")
    unknown, *dimensions = listed
    known = header.rows - len(unknown)
    if (dimensions or known) and len(dimensions) != len(schema.dimensions):
        raise CorruptFrame("dimensions do not fit the schema", expected=len(schema.dimensions))
    if any(len(values) != known or not set(map(type, values)) <= {str, int, bool} for values in dimensions):
        raise CorruptFrame("a dimension is a text, an integer or a flag, and every source has it", sources=known)
    keys: list[Key | None] = list(zip(*dimensions, strict=True)) if dimensions else [()] * known
    return _with_gaps(keys, unknown, header) if unknown or len(keys) < header.cells[SOURCES] else keys


def _with_gaps(keys: list[Key | None], unknown: list[Any], header: Header) -> list[Key | None]:
    """The keys with None at the rows of no source, which may only come after the rows of all sources."""
    sources = header.cells[SOURCES]
    gaps = {row for row in unknown if is_whole(row, header.rows - 1) and row >= sources}
    if len(gaps) != len(unknown) or header.rows < sources:
        raise CorruptFrame("sources without a row, or rows of no source among them", rows=header.rows, sources=sources)
    known = iter(keys)
    return [None if row in gaps else next(known) for row in range(header.rows)]


def read_tables(data: bytes) -> list[TableState | None]:
    """The tables of a link's texts."""
    listed = read_json(data)
    if not isinstance(listed, list) or not all(state is None or _is_table(state) for state in listed):
        raise CorruptFrame("tables of something else than texts")
    return [None if state is None else (state[0], state[1]) for state in listed]


def _is_table(state: Any) -> bool:
    if not isinstance(state, list) or len(state) != 2 or not is_whole(state[1]):
        return False
    return isinstance(state[0], list) and all(isinstance(text, str) for text in state[0])


def write_told(told: Mapping[int, Exacts]) -> bytes:
    """What was told exactly of the sources' last events, which their state cannot show."""
    parts: list[bytes] = []
    for row, exacts in told.items():
        try:
            values = [part for index, value in exacts for part in (varint.write(index), exact.encode(value))]
        except UnicodeEncodeError:  # a time written in a text that UTF-8 cannot hold: nothing is claimed of it then
            continue
        parts += (varint.write(row), varint.write(len(exacts)), *values)
    return b"".join(parts)


def read_told(data: bytes, expander: Expander) -> Iterator[tuple[int, Exacts]]:
    """The same on the way back, source by source."""
    at, properties = 0, len(expander.rules.rules)
    while at < len(data):
        row, at = varint.read(data, at)
        count, at = varint.read(data, at)
        if not expander.knows(row) or count > properties:
            raise CorruptFrame("values of no source, or too many", row=row, values=count)
        exacts: Exacts = ()
        for _ in range(count):
            index, at = varint.read(data, at)
            value, at = exact.decode(data, at)
            if index >= properties:
                raise CorruptFrame("a value of no property", index=index)
            exacts += ((index, value),)
        yield row, exacts


def read_memory(data: bytes) -> list[tuple[Key, int, int]]:
    """What is remembered of sources whose state is not known: life and ordinal of the last event delivered."""
    listed = read_json(data)
    if not isinstance(listed, list) or not all(_is_entry(entry) for entry in listed):
        raise CorruptFrame("a memory of something else than sources")
    return [(tuple(key), life, ordinal) for key, life, ordinal in listed]


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 3 or not is_whole(entry[1]) or not is_whole(entry[2]):
        return False
    return isinstance(entry[0], list) and all(isinstance(value, str | int) for value in entry[0])


def write_recent(hashes: Mapping[int, bytes]) -> bytes:
    """The frames that are known again when they come again."""
    return b"".join(bytes((low,)) + digest for low, digest in sorted(hashes.items()))


def read_recent(data: bytes) -> dict[int, bytes]:
    """The same on the way back."""
    if len(data) % (1 + HASH_BYTES):
        raise CorruptFrame("hashes are cut off", length=len(data))
    return {data[at]: data[at + 1 : at + 1 + HASH_BYTES] for at in range(0, len(data), 1 + HASH_BYTES)}


def write_bindings(bindings: Sequence[Binding]) -> bytes:
    """What slots name."""
    return b"".join(binding.encode() for binding in bindings)


def read_bindings(data: bytes) -> list[Binding]:
    """The same on the way back."""
    bindings, at = [], 0
    while at < len(data):
        binding, at = Binding.read(data, at)
        bindings.append(binding)
    return bindings


def _unknown(keys: Sequence[Key | None]) -> list[int]:
    return [row for row, key in enumerate(keys) if key is None]
