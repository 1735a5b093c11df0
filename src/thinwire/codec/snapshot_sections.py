"""The bytes of a checkpoint: what is in it, how it is packed, and how it is known to be whole.

    version      1 byte
    header       4 bytes of length, then canonical JSON: whose state it is, and how long each section is
    sections     one after the other, deflated together
    hash         16 bytes of blake2b over all of the above

Nothing is unpacked before the hash is right and the sizes are within their limits.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from thinwire.errors import CorruptFrame

VERSION = 1
MAX_SECTION = 1 << 28
"""bytes of a section, at most; that of the rows has a limit of its own"""

_HASH = 16
_LENGTH = 4
_LARGEST = (1 << 64) - 1


class Header(NamedTuple):
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
    def decode(cls, data: bytes) -> Header:
        told = read_json(data)
        if not isinstance(told, dict) or set(told) != set(cls._fields) or not _is_header(told):
            raise CorruptFrame("a header that says something else", length=len(data))
        try:
            told |= {name: bytes.fromhex(told[name]) for name in ("fingerprint", "rules")}
        except ValueError as problem:
            raise CorruptFrame(f"a header that cannot be read: {problem}") from None
        return cls(**told)


def seal(header: Header, sections: Sequence[bytes]) -> bytes:
    """The whole checkpoint. What no reader would take is refused: ValueError."""
    if any(len(section) > MAX_SECTION for section in sections[1:]):
        raise ValueError(f"a state too large for a checkpoint: more than {MAX_SECTION} bytes of keys, texts or objects")
    head = header._replace(sizes=[len(section) for section in sections]).encode()
    machine = zlib.compressobj(1)
    packed = [machine.compress(section) for section in sections]
    front = bytes((VERSION,)) + len(head).to_bytes(_LENGTH, "big")
    whole = b"".join((front, head, *packed, machine.flush()))
    return whole + blake2b(whole, digest_size=_HASH).digest()


def unseal(data: bytes) -> tuple[Header, memoryview]:
    """The header and the packed sections of bytes that are as they were written."""
    end = len(data) - _HASH
    if end < 1 + _LENGTH or blake2b(data[:end], digest_size=_HASH).digest() != data[end:]:
        raise CorruptFrame("cut off, or not what was written", length=len(data))
    if data[0] != VERSION:
        raise CorruptFrame("another version", version=data[0], supported=[VERSION])
    start = 1 + _LENGTH + int.from_bytes(data[1 : 1 + _LENGTH], "big")
    if start > end:
        raise CorruptFrame("a header longer than the whole", length=start)
    return Header.decode(data[1 + _LENGTH : start]), memoryview(data)[start:end]


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
