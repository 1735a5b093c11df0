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
from thinwire_lab.streams import binary_formats_thrift as thrift
from thinwire_lab.streams import text_formats as gzip_json
from thinwire_lab.streams import text_formats_plain_json as plain_json
from thinwire_lab.streams import text_formats_xml as xml

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
        Format("json", "compact JSON", True, plain_json.encode),
        Format("xml", "XML, one element a property", True, xml.encode),
        Format("gzip-json", "compact JSON, each event gzipped", True, gzip_json.encode),
        Format("avro", "Avro binary, one record an event", True, avro.encode),
        Format("thrift", "Thrift binary protocol, one struct an event", False, thrift.encode),
    )
}
