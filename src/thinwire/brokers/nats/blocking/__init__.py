"""Reading the logs of a NATS server without an event loop: for tables, which are made of what is there already.

    with open_source("nats://localhost:4222") as source:
        for block in source.read_blocks("tw_log_rooms", 1, source.span("tw_log_rooms").last):
            reader.take(block.payloads, block.offsets, block.times)

nats-py waits in an event loop and makes an object of every message; what a reader of stretches needs of the protocol is
small. A compiled kernel finds the messages in the received bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from thinwire.brokers.nats.blocking.nats_log_source import NatsSource
from thinwire.brokers.nats.options import NatsOptions, Tls, read_servers
from thinwire.errors import ConfigError

__all__ = ["NatsSource", "open_source"]

_TLS = tuple(item.name for item in fields(Tls))
_SECONDS = ("connect_timeout", "timeout")


def open_source(url: str | Sequence[str], **options: Any) -> NatsSource:
    """Connect to a NATS server with JetStream, or to one of several, to read its logs.

    url: as for `thinwire.brokers.nats.connect`
    options: the fields of `NatsOptions` and `Tls` by their names, as values or as text

    >>> open_source("nats://localhost:4222", pasword="enchantress")
    Traceback (most recent call last):
    ...
    thinwire.errors.ConfigError: ...
    """
    source = NatsSource(*read_servers(url, _options(options)))
    source.open()
    return source


def _options(given: dict[str, Any]) -> NatsOptions:
    known = {item.name for item in fields(NatsOptions)}
    for name in given:
        if name not in known and name not in _TLS:
            raise ConfigError("no such option of a connection", option=name, known=sorted(known.union(_TLS)))
    settings = {name: value for name, value in given.items() if name in known}
    for name in settings.keys() & _SECONDS:
        settings[name] = _seconds(name, settings[name])
    tls = {name: value for name, value in given.items() if name in _TLS}
    if tls:
        settings["tls"] = Tls(**tls)
    return NatsOptions(**settings)


def _seconds(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError("seconds, more than 0", **{name: value}) from None
