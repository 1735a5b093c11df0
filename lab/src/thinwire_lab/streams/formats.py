"""Formats for comparing sizes: each message is a complete event, independent of all others.

>>> sorted(FORMATS)
['avro', 'gzip-json', 'json', 'thrift', 'xml']
>>> FORMATS["thrift"].supports_partial
False
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from thinwire.schema import Schema
from thinwire_lab.streams.binary_formats import to_avro, to_thrift
from thinwire_lab.streams.text_formats import to_gzip_json, to_json, to_xml

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    """A format for comparison.

    encode: from event and schema to bytes
    supports_partial: whether it can encode an event without some properties
    """

    encode: Callable[[Mapping[str, Any], Schema], bytes]
    supports_partial: bool = True


FORMATS = {
    "json": Format(to_json),
    "xml": Format(to_xml),
    "gzip-json": Format(to_gzip_json),
    "avro": Format(to_avro),
    "thrift": Format(to_thrift, supports_partial=False),
}
