"""What a team would do without us, in the standard library's own best way. Benches run it in the same run as ours.

>>> packed = packed_json({"room": "11.1", "t": 20.5})
>>> unpacked_json(packed)
{'room': '11.1', 't': 20.5}
>>> len(deflate(compact_json({"room": "11.1", "t": 20.5}))) <= len(packed)
True
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

RAW_DEFLATE = -15
"""no zlib header and no checksum: six bytes a message less than `zlib.compress` writes by default"""
LEVEL = 6

_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def compact_json(event: Mapping[str, Any]) -> bytes:
    """The smallest plain JSON of an event; for sizes."""
    return _COMPACT.encode(event).encode()


def deflate(text: bytes) -> bytes:
    """One message compressed by itself."""
    return zlib.compress(text, LEVEL, wbits=RAW_DEFLATE)


def packed_json(event: Mapping[str, Any]) -> bytes:
    """An event compressed as most programs would; for time. `json.dumps` without options is its fastest form."""
    return zlib.compress(json.dumps(event).encode(), LEVEL, wbits=RAW_DEFLATE)


def unpacked_json(message: bytes) -> Any:
    """The way back."""
    return json.loads(zlib.decompress(message, wbits=RAW_DEFLATE))
