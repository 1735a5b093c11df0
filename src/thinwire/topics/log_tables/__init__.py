"""Ranges of a topic's log as tables: from messages to Arrow batches, whoever asks for them."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.topics.log_tables.log_table_landing import Counted, Landing
    from thinwire.topics.log_tables.offset_range import REMADE
    from thinwire.topics.log_tables.offset_range_ranges import Range, span_of
    from thinwire.topics.log_tables.raw_tables import FRAMES, frames
    from thinwire.topics.log_tables.raw_tables_messages import MESSAGES, messages
    from thinwire.topics.log_tables.table_layout import TopicSchemas
    from thinwire.topics.log_tables.table_layout_shaping import ABOUT, BOUND, table_schema
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "log_table_landing": "Counted Landing",
            "offset_range": "REMADE",
            "offset_range_ranges": "Range span_of",
            "raw_tables": "FRAMES frames",
            "raw_tables_messages": "MESSAGES messages",
            "table_layout": "TopicSchemas",
            "table_layout_shaping": "ABOUT BOUND table_schema",
        },
    )

__all__ = [
    "ABOUT",
    "BOUND",
    "FRAMES",
    "MESSAGES",
    "REMADE",
    "Counted",
    "Landing",
    "Range",
    "TopicSchemas",
    "frames",
    "messages",
    "span_of",
    "table_schema",
]
