"""Events that are nothing but bytes: both ends count them, and neither keeps them."""

from __future__ import annotations

from thinwire.codec.source_table_columns import ORDINAL, TOLD, Columns

UNKEPT = b"\x00\x01"
"""the columns of a source whose last event was such bytes: absent, and only near to what it was"""


def note(columns: Columns) -> None:
    """The only source has one more event."""
    ordinal = columns.table[ORDINAL] + 1
    columns.table[ORDINAL] = columns.table[TOLD] = columns.near[0] = ordinal
    columns.objects[0][0] = None
