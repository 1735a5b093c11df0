"""Subjects and bytes, no meaning: what carries messages, beginning with a broker in memory that can misbehave."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.brokers.protocol import Capabilities, Inbox, Transport, TransportMessage
    from thinwire.brokers.subjects import matches
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "protocol": "Capabilities Inbox Transport TransportMessage",
            "subjects": "matches",
        },
    )

__all__ = [
    "Capabilities",
    "Inbox",
    "Transport",
    "TransportMessage",
    "matches",
]
