"""Topics without a schema: their events are bytes, and nothing is known of what they mean.

To everybody in between such a topic has a schema all the same: one property that holds the bytes.

>>> opaque("machine.raw").wire[0].name, is_opaque(opaque("machine.raw"))
('payload', True)
"""

from __future__ import annotations

from thinwire.schema.property import Kind
from thinwire.schema.property_properties import Property
from thinwire.schema.schema import Schema

PAYLOAD = "payload"
"""the property that holds the bytes"""


def opaque(topic: str) -> Schema:
    """The schema of a topic whose events are bytes."""
    return Schema(topic, [Property(PAYLOAD, Kind.OPAQUE)])


def is_opaque(schema: Schema) -> bool:
    """Are the events of this schema nothing but bytes?"""
    return [(p.name, p.kind) for p in schema.wire] == [(PAYLOAD, Kind.OPAQUE)] and len(schema.properties) == 1
