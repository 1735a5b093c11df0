"""Blocking reader of NATS logs, without an event loop. Spark and batch jobs use it.

    with open_source("nats://localhost:4222") as source:
        for block in source.read_blocks("tw_log_rooms", 1, source.span("tw_log_rooms").last):
            reader.take(block.payloads, block.offsets, block.times)

A compiled scanner finds the messages in the received bytes, and the result is columns instead of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinwire.brokers.nats.blocking.nats_log_source import NatsSource
from thinwire.brokers.nats.options import read_options, read_servers

__all__ = ["NatsSource", "open_source"]


def open_source(url: str | Sequence[str], **options: Any) -> NatsSource:
    """Connect to a NATS server with JetStream, or to one of several, to read its logs.

    url: as for `thinwire.brokers.nats.connect`
    options: the fields of `NatsOptions` and `Tls` by their names, as values or as text

    >>> open_source("nats://localhost:4222", pasword="enchantress")
    Traceback (most recent call last):
    ...
    thinwire.errors.ConfigError: ...
    """
    source = NatsSource(*read_servers(url, read_options(options)))
    source.open()
    return source
