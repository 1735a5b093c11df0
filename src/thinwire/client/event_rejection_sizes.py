"""What a message of the broker can hold, known before a link takes an event that would not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thinwire.errors import BrokerRefused, PayloadTooLarge
from thinwire.schema import Kind, Schema
from thinwire.wire.key_frame import CHUNK_BYTES

_LARGE = frozenset({Kind.STRING, Kind.ENUM, Kind.ARRAY, Kind.OPAQUE})
_MARGIN = CHUNK_BYTES + 4096
"""bytes that stand beside the values of one event at most: the rest of a chunk of key frames"""


class SizeLimit:
    """How large the values of an event may be, all together.

    >>> from thinwire.schema import Property
    >>> limit = SizeLimit(Schema("notes", [Property("text", "string")]), max_payload=200_000)
    >>> limit.check({"text": "short"})
    """

    def __init__(self, schema: Schema, max_payload: int) -> None:
        if max_payload < 2 * CHUNK_BYTES:
            raise BrokerRefused("its messages are too small", max_payload=max_payload, needed=2 * CHUNK_BYTES)
        self.limit = max_payload - _MARGIN
        self._names = sorted({p.name.partition(".")[0] for p in schema if p.kind in _LARGE})

    def check(self, event: Mapping[str, Any]) -> None:
        """Refuse an event that no message could hold."""
        if not self._names or not isinstance(event, Mapping):
            return
        sizes = [_size(event.get(name)) for name in self._names]
        if sum(sizes) > self.limit:
            largest = self._names[sizes.index(max(sizes))]
            raise PayloadTooLarge(property=largest, size=sum(sizes), limit=self.limit)


def _size(value: Any) -> int:
    """Bytes of a value, at most; numbers are small."""
    if isinstance(value, str):
        return len(value) if value.isascii() else 4 * len(value)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _size(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return 9 * len(value) + sum(_size(item) for item in value if not isinstance(item, int | float))
    return 0
