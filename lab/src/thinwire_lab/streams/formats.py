"""Formats that others use, for comparing sizes: whole messages from whole events, nothing shared between them.

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
from thinwire_lab.streams import binary_formats as avro
from thinwire_lab.streams import binary_formats as thrift
from thinwire_lab.streams import text_formats as gzip_json
from thinwire_lab.streams import text_formats as plain_json
from thinwire_lab.streams import text_formats as xml

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    """A format to compare with.

    what: one line for tables
    supports_partial: can it carry an event with properties left out?
    encode: from event and schema to bytes
    """

    name: str
    what: str
    supports_partial: bool
    encode: Callable[[Mapping[str, Any], Schema], bytes]


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("json", "compact JSON", True, plain_json.to_json),
        Format("xml", "XML, one element a property", True, xml.to_xml),
        Format("gzip-json", "compact JSON, each event gzipped", True, gzip_json.to_gzip_json),
        Format("avro", "Avro binary, one record an event", True, avro.to_avro),
        Format("thrift", "Thrift binary protocol, one struct an event", False, thrift.to_thrift),
    )
}
