"""Brokers: the protocol that all of them implement, the memory broker, NATS, recordings, and the choice by URL."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.brokers.protocol import Broker, Bucket, Capabilities, LogReader, LogSource, Retention, Span, Stored
    from thinwire.brokers.subjects import matches
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "protocol": "Broker Bucket Capabilities LogReader LogSource Retention Span Stored",
            "subjects": "matches",
        },
    )

__all__ = [
    "Broker",
    "Bucket",
    "Capabilities",
    "LogReader",
    "LogSource",
    "Retention",
    "Span",
    "Stored",
    "matches",
]
