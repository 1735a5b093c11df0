"""The bytes of a checkpoint: what is in it, how it is packed, and how it is known to be whole.

    version      1 byte
    header       4 bytes of length, then canonical JSON: whose state it is, and how long each section is
    sections     one after the other, deflated together
    hash         16 bytes of blake2b over all of the above

Nothing is unpacked before the hash is right and the sizes are within their limits.

The sections of a checkpoint beside the rows: keys, tables of texts, and what a subscriber has learned meanwhile.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any, NamedTuple

from thinwire.codec import Expander
from thinwire.codec.decoder_state import HASH_BYTES
from thinwire.errors import CorruptFrame
from thinwire.schema import Schema
from thinwire.wire import Binding, varint
from thinwire.wire import exact_value as exact
from thinwire.wire.stream_state import SOURCES, TableState

VERSION = 1
MAX_SECTION = 1 << 28
"""bytes of a section, at most; that of the rows has a limit of its own"""

_HASH = 16
_LENGTH = 4
_LARGEST = (1 << 64) - 1


class SnapshotHeader(NamedTuple):
    """Whose state a checkpoint is, and where in the stream.

    cells: of the link's state; rows: how many sources; position: the transport's number of the last message
    sizes: bytes of each section
    """

    publisher: str
    incarnation: int
    config_version: int
    fingerprint: bytes
    rules: bytes
    cells: list[int]
    rows: int
    position: int | None
    sizes: list[int]

    def encode(self) -> bytes:
        told = self._asdict() | {"fingerprint": self.fingerprint.hex(), "rules": self.rules.hex()}
        return write_json(told)

    @classmethod
    def decode(cls, data: bytes) -> SnapshotHeader:
        told = read_json(data)
        if not isinstance(told, dict) or set(told) != set(cls._fields) or not _is_header(told):
            raise CorruptFrame("a header that says something else", length=len(data))
        try:
            told |= {name: bytes.fromhex(told[name]) for name in ("fingerprint", "rules")}
        except ValueError as problem:
            raise CorruptFrame(f"a header that cannot be read: {problem}") from None
        return cls(**told)


def seal(header: SnapshotHeader, sections: Sequence[bytes]) -> bytes:
    """The whole checkpoint. What no reader would take is refused: ValueError."""
    if any(len(section) > MAX_SECTION for section in sections[1:]):
        raise ValueError(f"a state too large for a checkpoint: more than {MAX_SECTION} bytes of keys, texts or objects")
    head = header._replace(sizes=[len(section) for section in sections]).encode()
    machine = zlib.compressobj(1)
    packed = [machine.compress(section) for section in sections]
    front = bytes((VERSION,)) + len(head).to_bytes(_LENGTH, "big")
    whole = b"".join((front, head, *packed, machine.flush()))
    return whole + blake2b(whole, digest_size=_HASH).digest()


def unseal(data: bytes) -> tuple[SnapshotHeader, memoryview]:
    """The header and the packed sections of bytes that are as they were written."""
    end = len(data) - _HASH
    if end < 1 + _LENGTH or blake2b(data[:end], digest_size=_HASH).digest() != data[end:]:
        raise CorruptFrame("cut off, or not what was written", length=len(data))
    if data[0] != VERSION:
        raise CorruptFrame("another version", version=data[0], supported=[VERSION])
    start = 1 + _LENGTH + int.from_bytes(data[1 : 1 + _LENGTH], "big")
    if start > end:
        raise CorruptFrame("a header longer than the whole", length=start)
    return SnapshotHeader.decode(data[1 + _LENGTH : start]), memoryview(data)[start:end]


def unpack(packed: memoryview, sizes: Sequence[int], expected: int, most: int) -> list[memoryview]:
    """The sections, once there are as many as expected and their sizes are within their limits.

    most: bytes of the first one, at most
    """
    if len(sizes) != expected or sizes[0] > most or max(sizes[1:]) > MAX_SECTION:
        raise CorruptFrame("sections of other sizes than they can have", sections=len(sizes), limit=most)
    whole, machine = sum(sizes), zlib.decompressobj()
    try:
        content = memoryview(machine.decompress(packed, whole + 1))
    except zlib.error as problem:
        raise CorruptFrame(f"deflate: {problem}") from None
    if not machine.eof or machine.unused_data or len(content) != whole:
        raise CorruptFrame("sections are cut off, or longer than told", length=len(content), told=whole)
    sections, at = [], 0
    for size in sizes:
        sections.append(content[at : at + size])
        at += size
    return sections


def write_json(value: Any) -> bytes:
    """Canonical JSON. All of it ASCII: a peer's text may be one that UTF-8 cannot hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def read_json(data: bytes) -> Any:
    """What JSON says."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise CorruptFrame(f"not JSON: {problem}") from None


def is_whole(value: Any, largest: int = _LARGEST) -> bool:
    """Is it a whole number, and neither negative nor too large?"""
    return type(value) is int and 0 <= value <= largest


def _is_header(told: dict[str, Any]) -> bool:
    """Has every field the type it must have?"""
    texts = (told["publisher"], told["fingerprint"], told["rules"])
    position = 0 if told["position"] is None else told["position"]
    numbers = (told["incarnation"], told["config_version"], told["rows"], position)
    lists = (told["cells"], told["sizes"])
    return (
        all(isinstance(text, str) for text in texts)
        and all(is_whole(number) for number in numbers)
        and all(isinstance(listed, list) and all(is_whole(n) for n in listed) for listed in lists)
    )


Key = tuple[Any, ...]
Exacts = tuple[tuple[int, Any], ...]


def know(expander: Expander, keys: list[Key | None]) -> None:
    """Know all sources at once, whose columns are in place."""
    expander.keys[:] = keys
    expander.metadata_codes[:] = [None] * (2 * len(keys))
    for virtual, bounds in enumerate((expander.bounds, expander.silent_bounds)):
        shared = expander.publisher, expander.incarnation, bool(virtual), False, ()
        expander.metadata_codes[virtual::2] = zip(repeat(bounds), keys, *map(repeat, shared), strict=False)
    for row in _unknown(keys):
        expander.metadata_codes[2 * row : 2 * row + 2] = None, None


def write_keys(keys: Sequence[Key | None]) -> bytes:
    """The values of each dimension, and the rows of no source."""
    known = [key for key in keys if key is not None]
    dimensions = range(len(known[0]) if known else 0)
    return write_json([_unknown(keys), *([key[k] for key in known] for k in dimensions)])


def read_keys(data: bytes, header: SnapshotHeader, schema: Schema) -> list[Key | None]:
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


def _with_gaps(keys: list[Key | None], unknown: list[Any], header: SnapshotHeader) -> list[Key | None]:
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


def write_exact_values(told: Mapping[int, Exacts]) -> bytes:
    """What was told exactly of the sources' last events, which their state cannot show."""
    parts: list[bytes] = []
    for row, exacts in told.items():
        try:
            values = [part for index, value in exacts for part in (varint.write(index), exact.encode(value))]
        except UnicodeEncodeError:  # a time written in a text that UTF-8 cannot hold: nothing is claimed of it then
            continue
        parts += (varint.write(row), varint.write(len(exacts)), *values)
    return b"".join(parts)


def read_exact_values(data: bytes, expander: Expander) -> Iterator[tuple[int, Exacts]]:
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
