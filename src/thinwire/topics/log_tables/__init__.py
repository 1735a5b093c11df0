"""Ranges of a topic's log as tables: from messages to Arrow batches, whoever asks for them."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.topics.log_tables.log_table import Counted, LogTable
    from thinwire.topics.log_tables.offset_range import REMADE, Range, span_of
    from thinwire.topics.log_tables.raw_tables import FRAMES, MESSAGES, frames, messages
    from thinwire.topics.log_tables.table_layout import ABOUT, BOUND, TopicSchemas, table_schema
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "log_table": "Counted LogTable",
            "offset_range": "REMADE Range span_of",
            "raw_tables": "FRAMES MESSAGES frames messages",
            "table_layout": "ABOUT BOUND TopicSchemas table_schema",
        },
    )

__all__ = [
    "ABOUT",
    "BOUND",
    "FRAMES",
    "MESSAGES",
    "REMADE",
    "Counted",
    "LogTable",
    "Range",
    "TopicSchemas",
    "frames",
    "messages",
    "span_of",
    "table_schema",
]
