"""Bytes of a snapshot: header, sections, compression and hash.

    version      1 byte
    header       4 bytes of length, then canonical JSON: identity of the stream and sizes of the sections
    sections     concatenated and deflated together
    hash         16 bytes of blake2b over all of the above

Nothing is decompressed before the hash is verified and the sizes are within their limits.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, repeat
from typing import Any, NamedTuple

from thinwire.codec import Expander
from thinwire.codec.frame_sequencer import HASH_BYTES
from thinwire.codec.row_map import Source
from thinwire.errors import CorruptFrame
from thinwire.schema import Schema
from thinwire.wire import Binding, exact_value, varint
from thinwire.wire.stream_state import SOURCES, TableState

VERSION = 1
MAX_SECTION = 1 << 28
"""maximum bytes of a section, except the rows, which have their own limit"""

_HASH = 16
_LENGTH = 4
_LARGEST = (1 << 64) - 1


class SnapshotHeader(NamedTuple):
    """Identity and position of the stream of a snapshot.

    cells: cells of the stream state; rows: number of rows; position: the transport's number of the last message
    sizes: bytes of each section
    """

    publisher: str
    incarnation: int
    config_version: int
    fingerprint: bytes
    rules: bytes
    rows: int
    position: int | None = None
    cells: Sequence[int] = ()
    sizes: Sequence[int] = ()

    def encode(self) -> bytes:
        fields = self._asdict() | {"fingerprint": self.fingerprint.hex(), "rules": self.rules.hex()}
        return write_json(fields)

    @classmethod
    def decode(cls, data: bytes) -> SnapshotHeader:
        fields = read_json(data)
        if not isinstance(fields, dict) or set(fields) != set(cls._fields) or not _is_header(fields):
            raise CorruptFrame("snapshot header has missing, unknown or invalid fields", length=len(data))
        try:
            fields |= {name: bytes.fromhex(fields[name]) for name in ("fingerprint", "rules")}
        except ValueError as problem:
            raise CorruptFrame(f"snapshot header: {problem}") from None
        return cls(**fields)


def seal(header: SnapshotHeader, sections: Sequence[bytes]) -> bytes:
    """Return the complete snapshot. Raises ValueError for sections above the limit."""
    if any(len(section) > MAX_SECTION for section in sections[1:]):
        raise ValueError(f"state too large for a snapshot: more than {MAX_SECTION} bytes of keys, texts or objects")
    head = header._replace(sizes=[len(section) for section in sections]).encode()
    deflater = zlib.compressobj(1)
    packed = [deflater.compress(section) for section in sections]
    front = bytes((VERSION,)) + len(head).to_bytes(_LENGTH, "big")
    content = b"".join((front, head, *packed, deflater.flush()))
    return content + blake2b(content, digest_size=_HASH).digest()


def unseal(data: bytes) -> tuple[SnapshotHeader, memoryview]:
    """Return the header and the compressed sections after verifying the hash."""
    end = len(data) - _HASH
    if end < 1 + _LENGTH or blake2b(data[:end], digest_size=_HASH).digest() != data[end:]:
        raise CorruptFrame("snapshot cut off or altered", length=len(data))
    if data[0] != VERSION:
        raise CorruptFrame("unsupported snapshot version", version=data[0], supported=[VERSION])
    start = 1 + _LENGTH + int.from_bytes(data[1 : 1 + _LENGTH], "big")
    if start > end:
        raise CorruptFrame("snapshot header cut off", length=start)
    return SnapshotHeader.decode(data[1 + _LENGTH : start]), memoryview(data)[start:end]


def unpack(packed: memoryview, sizes: Sequence[int], count: int, max_rows_size: int) -> list[memoryview]:
    """Return the decompressed sections after checking their number and sizes.

    max_rows_size: maximum bytes of the first section
    """
    if len(sizes) != count or sizes[0] > max_rows_size or max(sizes[1:]) > MAX_SECTION:
        raise CorruptFrame("section sizes out of range", sections=len(sizes), limit=max_rows_size)
    total, deflater = sum(sizes), zlib.decompressobj()
    try:
        content = memoryview(deflater.decompress(packed, total + 1))
    except zlib.error as problem:
        raise CorruptFrame(f"deflate: {problem}") from None
    if not deflater.eof or deflater.unused_data or len(content) != total:
        raise CorruptFrame("sections shorter or longer than declared", length=len(content), declared=total)
    return [content[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def write_json(value: Any) -> bytes:
    """Return canonical JSON in ASCII. A peer's text may contain surrogates that UTF-8 cannot encode."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def read_json(data: bytes) -> Any:
    """Parse JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise CorruptFrame(f"not JSON: {problem}") from None


def is_count(value: Any, largest: int = _LARGEST) -> bool:
    """Check for an integer from 0 to `largest`."""
    return type(value) is int and 0 <= value <= largest


def _is_header(fields: dict[str, Any]) -> bool:
    """Check the types of all header fields."""
    texts = (fields["publisher"], fields["fingerprint"], fields["rules"])
    position = 0 if fields["position"] is None else fields["position"]
    numbers = (fields["incarnation"], fields["config_version"], fields["rows"], position)
    lists = (fields["cells"], fields["sizes"])
    return (
        all(isinstance(text, str) for text in texts)
        and all(is_count(number) for number in numbers)
        and all(isinstance(listed, list) and all(is_count(n) for n in listed) for listed in lists)
    )


Exacts = tuple[tuple[int, Any], ...]


def set_sources(expander: Expander, keys: list[Source | None]) -> None:
    """Set the sources of an expander whose rows are restored."""
    expander.keys[:] = keys
    expander.event_metadata[:] = [None] * (2 * len(keys))
    for virtual, bounds in enumerate((expander.bounds, expander.suppressed_bounds)):
        shared = expander.publisher, expander.incarnation, bool(virtual), False, ()
        expander.event_metadata[virtual::2] = zip(repeat(bounds), keys, *map(repeat, shared), strict=False)
    for row in _unknown(keys):
        expander.event_metadata[2 * row : 2 * row + 2] = None, None


def write_keys(keys: Sequence[Source | None]) -> bytes:
    """Return the values of each dimension, and the rows without a source."""
    known = [key for key in keys if key is not None]
    dimensions = range(len(known[0]) if known else 0)
    return write_json([_unknown(keys), *([key[k] for key in known] for k in dimensions)])


def read_keys(data: bytes, header: SnapshotHeader, schema: Schema) -> list[Source | None]:
    """Return the keys of all rows. Checking by dimension is much faster than by key."""
    listed = read_json(data)
    if not isinstance(listed, list) or not all(isinstance(values, list) for values in listed) or not listed:
        raise CorruptFrame("keys must be a list of lists")
    unknown, *dimensions = listed
    known = header.rows - len(unknown)
    if (dimensions or known) and len(dimensions) != len(schema.dimensions):
        raise CorruptFrame("dimensions do not fit the schema", expected=len(schema.dimensions))
    if any(len(values) != known or not set(map(type, values)) <= {str, int, bool} for values in dimensions):
        raise CorruptFrame(
            "a dimension must be a text, an integer or a flag, and every source must have it", sources=known
        )
    keys: list[Source | None] = list(zip(*dimensions, strict=True)) if dimensions else [()] * known
    return _with_gaps(keys, unknown, header) if unknown or len(keys) < header.cells[SOURCES] else keys


def _with_gaps(keys: list[Source | None], unknown: list[Any], header: SnapshotHeader) -> list[Source | None]:
    """Insert None for rows without a source, which must come after the rows of all sources."""
    sources = header.cells[SOURCES]
    gaps = {row for row in unknown if is_count(row, header.rows - 1) and row >= sources}
    if len(gaps) != len(unknown) or header.rows < sources:
        raise CorruptFrame("number of sources and rows do not match", rows=header.rows, sources=sources)
    known = iter(keys)
    return [None if row in gaps else next(known) for row in range(header.rows)]


def read_tables(data: bytes) -> list[TableState | None]:
    """Return the text tables of a stream."""
    listed = read_json(data)
    if not isinstance(listed, list) or not all(state is None or _is_table(state) for state in listed):
        raise CorruptFrame("text tables must contain texts")
    return [None if state is None else (state[0], state[1]) for state in listed]


def _is_table(state: Any) -> bool:
    if not isinstance(state, list) or len(state) != 2 or not is_count(state[1]):
        return False
    return isinstance(state[0], list) and all(isinstance(text, str) for text in state[0])


def write_exact_values(exact_values: Mapping[int, Exacts]) -> bytes:
    """Return the values of the last events that the state cannot represent."""
    parts: list[bytes] = []
    for row, exacts in exact_values.items():
        try:
            values = [part for index, value in exacts for part in (varint.write(index), exact_value.encode(value))]
        except UnicodeEncodeError:  # a timestamp text that UTF-8 cannot encode; the restored event has no bounds then
            continue
        parts += (varint.write(row), varint.write(len(exacts)), *values)
    return b"".join(parts)


def read_exact_values(data: bytes, expander: Expander) -> Iterator[tuple[int, Exacts]]:
    """Iterate over the exact values by row."""
    at, properties = 0, len(expander.rules.rules)
    while at < len(data):
        row, at = varint.read(data, at)
        count, at = varint.read(data, at)
        if not expander.knows(row) or count > properties:
            raise CorruptFrame("exact values of an unknown source, or too many", row=row, values=count)
        exacts: Exacts = ()
        for _ in range(count):
            index, at = varint.read(data, at)
            value, at = exact_value.decode(data, at)
            if index >= properties:
                raise CorruptFrame("value of an unknown property", index=index)
            exacts += ((index, value),)
        yield row, exacts


def read_delivered(data: bytes) -> list[tuple[Source, int, int]]:
    """Return source, incarnation and ordinal of the last delivered event of sources without state."""
    listed = read_json(data)
    if not isinstance(listed, list) or not all(_is_entry(entry) for entry in listed):
        raise CorruptFrame("delivered ordinals have invalid entries")
    return [(tuple(key), incarnation, ordinal) for key, incarnation, ordinal in listed]


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 3 or not is_count(entry[1]) or not is_count(entry[2]):
        return False
    return isinstance(entry[0], list) and all(isinstance(value, str | int) for value in entry[0])


def write_recent(hashes: Mapping[int, bytes]) -> bytes:
    """Return the hashes of recent frames, for dedup."""
    return b"".join(bytes((low,)) + digest for low, digest in sorted(hashes.items()))


def read_recent(data: bytes) -> dict[int, bytes]:
    """Return the hashes of recent frames by the low byte of their sequence."""
    if len(data) % (1 + HASH_BYTES):
        raise CorruptFrame("hashes cut off", length=len(data))
    return {data[at]: data[at + 1 : at + 1 + HASH_BYTES] for at in range(0, len(data), 1 + HASH_BYTES)}


def write_bindings(bindings: Sequence[Binding]) -> bytes:
    return b"".join(binding.encode() for binding in bindings)


def read_bindings(data: bytes) -> list[Binding]:
    bindings, at = [], 0
    while at < len(data):
        binding, at = Binding.read(data, at)
        bindings.append(binding)
    return bindings


def _unknown(keys: Sequence[Source | None]) -> list[int]:
    return [row for row, key in enumerate(keys) if key is None]
