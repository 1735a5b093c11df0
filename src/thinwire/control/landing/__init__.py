"""Ranges of a topic's log as tables: from messages to Arrow batches, whoever asks for them."""

from thinwire.control.landing.frames import FRAMES, frames
from thinwire.control.landing.landing import Counted, Landing
from thinwire.control.landing.losses import REMADE
from thinwire.control.landing.messages import MESSAGES, messages
from thinwire.control.landing.ranges import Range, span_of
from thinwire.control.landing.schemas import TopicSchemas
from thinwire.control.landing.shaping import ABOUT, BOUND, table_schema

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
