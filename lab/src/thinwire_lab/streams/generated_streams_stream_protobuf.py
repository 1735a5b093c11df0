"""Rows of taxi trips as Protocol Buffers, with the message that the original study defined.

All of its fields are required and of three kinds, so they are written here: strings, a whole number and 32-bit floats,
each behind its number and the way it is written, in the order of their numbers.

>>> row = b"M,H,2013-01-01 00:00:00,2013-01-01 00:02:00,9,0.44,-73.9,40.7,-73.9,40.7,CSH,3.50,0.50,0.50,0.00,0.00,4.50"
>>> as_protobuf(row)[:9], len(as_protobuf(row))
(b'\\n\\x01M\\x12\\x01H\\x1a\\x132', 112)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from thinwire.wire import varint
from thinwire_lab.streams.generated_streams import TAXI_COLUMNS, lines

_WHOLE, _TEXT, _FLOAT = 0, 2, 5
"""how a field is written: varint, its length in front, four bytes"""
_TEXTS = ("medallion", "hack_license", "pickup_datetime", "dropoff_datetime", "payment_type")
_WHOLES = ("trip_time_in_secs",)
_PACKED = struct.Struct("<f").pack


def as_protobuf(row: bytes) -> bytes:
    """A row of taxi trips as the `Taxitrip` of the original study."""
    return b"".join(write(value) for write, value in zip(_WRITERS, row.split(b","), strict=True))


def taxi_protobuf(file: Path) -> Iterator[bytes]:
    return map(as_protobuf, lines(file))


def _writer(number: int, name: str) -> Callable[[bytes], bytes]:
    if name in _TEXTS:
        text = varint.write(number << 3 | _TEXT)
        return lambda value: text + varint.write_blob(value)
    if name in _WHOLES:
        whole = varint.write(number << 3 | _WHOLE)
        return lambda value: whole + varint.write(int(value))
    real = varint.write(number << 3 | _FLOAT)
    return lambda value: real + _PACKED(float(value))


_WRITERS = [_writer(number, name) for number, name in enumerate(TAXI_COLUMNS, 1)]
