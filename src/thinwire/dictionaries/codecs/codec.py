"""The codec interface and the registry of codecs that dictionaries name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from thinwire.errors import ConfigError, CorruptDictionary, CorruptFrame

if TYPE_CHECKING:
    from thinwire.dictionaries.dictionary import Dictionary


class Codec(Protocol):
    """Packs single messages without loss; each message is unpacked independently.

    A codec creates its compressors on first use and reuses them. It must not be shared between threads.

    name: shown in tables
    """

    name: str

    def pack(self, message: bytes) -> bytes:
        """Return the message in fewer bytes, or one byte and the message; an empty message stays empty."""

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Return the message; raise `CorruptFrame` for invalid bytes and above `limit` bytes."""


MAX_NUMBER = 255


class RegisteredCodec(NamedTuple):
    """A codec that a dictionary can name.

    number: identifies the codec in stored dictionaries and their hashes; it never changes
    create: returns the codec of a dictionary
    """

    name: str
    number: int
    create: Callable[[Dictionary], Codec]


_BY_NAME: dict[str, RegisteredCodec] = {}
_BY_NUMBER: dict[int, RegisteredCodec] = {}


def register_codec(name: str, number: int, create: Callable[[Dictionary], Codec]) -> None:
    """Make a codec available to dictionaries. Publishers and subscribers must both register it.

    Numbers from 128 on are for codecs outside of this package. Registering the same codec again has no effect.
    """
    if not 0 <= number <= MAX_NUMBER:
        raise ConfigError("the number of a codec is one byte", codec=name, number=number, limit=MAX_NUMBER)
    codec = RegisteredCodec(name, number, create)
    if any(known not in (None, codec) for known in (_BY_NAME.get(name), _BY_NUMBER.get(number))):
        raise ConfigError("another codec has this name or number", codec=name, number=number)
    _BY_NAME[name] = _BY_NUMBER[number] = codec


def codec_names() -> list[str]:
    """Return the names of all registered codecs, ordered by number."""
    return [_BY_NUMBER[number].name for number in sorted(_BY_NUMBER)]


def codec_number(name: str) -> int:
    return _BY_NAME[name].number


def codec_name(number: int) -> str:
    """Return the name of the codec with this number; raise `CorruptDictionary` if it is not registered."""
    if number not in _BY_NUMBER:
        raise CorruptDictionary("unknown codec", codec=number, known=sorted(_BY_NUMBER))
    return _BY_NUMBER[number].name


def codec_of(dictionary: Dictionary) -> Codec:
    """Return a codec for a dictionary.

    Reuse it: creating its compressors costs as much as packing a hundred messages.
    """
    return _BY_NAME[dictionary.codec].create(dictionary)


def read_stored(packed: bytes, mark: bytes, limit: int) -> bytes:
    """Return a message that is stored uncompressed behind `mark`."""
    if packed[:1] != mark:
        raise CorruptFrame("unknown mark at the start of a packed message", mark=packed[0])
    if len(packed) - 1 > limit:
        raise CorruptFrame("a stored message is above the limit", length=len(packed) - 1, limit=limit)
    return packed[1:]
