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

    what: one line for tables
    supports_partial: whether it can encode an event without some properties
    encode: from event and schema to bytes
    """

    name: str
    what: str
    supports_partial: bool
    encode: Callable[[Mapping[str, Any], Schema], bytes]


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("json", "compact JSON", True, to_json),
        Format("xml", "XML, one element a property", True, to_xml),
        Format("gzip-json", "compact JSON, each event gzipped", True, to_gzip_json),
        Format("avro", "Avro binary, one record an event", True, to_avro),
        Format("thrift", "Thrift binary protocol, one struct an event", False, to_thrift),
    )
}
