"""Offset ranges of a topic log as Arrow batches.

`LogTable` seeks to the start of a range, decodes its messages with one decoder per publisher and projects the events to
the columns of the topic's table. `read_messages` and `read_frames` return the stored bytes instead. The Spark source
reads one range per task.
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.topics.log_tables.log_table import LogTable, ReadCounts
    from thinwire.topics.log_tables.offset_range import LOG_REPLACED, Range
    from thinwire.topics.log_tables.raw_tables import FRAMES, MESSAGES, read_frames, read_messages
    from thinwire.topics.log_tables.source_broker import read_topic, span_of
    from thinwire.topics.log_tables.table_layout import BOUND, METADATA_COLUMNS, table_schema
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "log_table": "LogTable ReadCounts",
            "offset_range": "LOG_REPLACED Range",
            "raw_tables": "FRAMES MESSAGES read_frames read_messages",
            "source_broker": "read_topic span_of",
            "table_layout": "BOUND METADATA_COLUMNS table_schema",
        },
    )

__all__ = [
    "BOUND",
    "FRAMES",
    "LOG_REPLACED",
    "MESSAGES",
    "METADATA_COLUMNS",
    "LogTable",
    "Range",
    "ReadCounts",
    "read_frames",
    "read_messages",
    "read_topic",
    "span_of",
    "table_schema",
]
