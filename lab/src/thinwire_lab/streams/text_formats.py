"""Each event's JSON through gzip by itself, with the 18 bytes of header and trailer that gzip puts around it."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

from thinwire.schema import Schema
from thinwire_lab.streams import text_formats_plain_json as plain_json

LEVEL = 6
"""gzip's own default"""


def encode(event: Mapping[str, Any], schema: Schema) -> bytes:
    """The event, or part of it, as gzipped compact JSON; no time is stamped, so equal events give equal bytes."""
    return gzip.compress(plain_json.encode(event, schema), LEVEL, mtime=0)
