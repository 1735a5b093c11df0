"""Brokers: the protocol that all of them implement, the memory broker, NATS, recordings, and the choice by URL."""

from thinwire.brokers.protocol import Broker, Bucket, LogReader, LogSource, Retention, Span, StoredMessage
from thinwire.brokers.subjects import matches

__all__ = [
    "Broker",
    "Bucket",
    "LogReader",
    "LogSource",
    "Retention",
    "Span",
    "StoredMessage",
    "matches",
]
