"""Bytes that a broker adds to a message on the socket, computed from the text of the NATS client protocol.

JetStream acknowledges in both directions:

    publisher -> broker     PUB subject inbox size, payload                    (HPUB with headers)
    broker -> publisher     MSG inbox sid size, {"stream":"...","seq":...}
    broker -> subscriber    MSG subject sid ack-subject size, payload          (HMSG with headers)
    subscriber -> broker    PUB ack-subject  0                                 (an empty body acknowledges)

where ack-subject is $JS.ACK.stream.consumer.deliveries.sequence.sequence.nanoseconds.pending. Each subscriber adds the
last two lines. Assumed: first delivery, no backlog (pending 0), one-digit subscription ids, the 56-character inbox of
the Python client. Not included: pull requests, pings, redelivery, TLS, TCP and IP. Under these assumptions the sizes
equal those exchanged by nats-server 2.15 and nats-py 2.16.

>>> traffic = JetStream(stream="rooms", consumer="hvac").traffic("building.rooms", 12)
>>> traffic
Traffic(published=94, stored=101, delivered=98, acknowledged=69)
>>> link_bytes("building.rooms", 12)
383
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from thinwire.brokers.nats.protocol_core import encode_headers
from thinwire.errors import ConfigError

_INBOX = "_INBOX." + "x" * 22 + "." + "x" * 26
_REPLY_SID, _DELIVERY_SID = "1", "2"
_NO_REPLY = ""
_NANOSECONDS = "1" * 19
_LINE = len("\r\n")


class Traffic(NamedTuple):
    """Bytes of one message: publication and acknowledgement, delivery to one subscriber and acknowledgement."""

    published: int
    stored: int
    delivered: int
    acknowledged: int


@dataclass(frozen=True)
class JetStream:
    """A stream and a consumer, whose names are part of every delivery.

    sequence: a typical one, for its number of digits
    inbox: reply subject of acknowledgements; its length depends on the client
    """

    stream: str = "thinwire"
    consumer: str = "subscriber"
    sequence: int = 1_000_000
    inbox: str = _INBOX

    def traffic(self, subject: str, payload: int, headers: Mapping[str, str] | None = None) -> Traffic:
        """Return the bytes of a message with a payload of this size."""
        if payload < 0:
            raise ConfigError("a payload has 0 bytes or more", payload=payload)
        stored = len(f'{{"stream":"{self.stream}","seq":{self.sequence}}}'.encode())
        return Traffic(
            published=_size(f"PUB {subject} {self.inbox}", payload, headers),
            stored=_size(f"MSG {self.inbox} {_REPLY_SID}", stored),
            delivered=_size(f"MSG {subject} {_DELIVERY_SID} {self._ack_subject}", payload, headers),
            acknowledged=_size(f"PUB {self._ack_subject} {_NO_REPLY}", 0),
        )

    @property
    def _ack_subject(self) -> str:
        return f"$JS.ACK.{self.stream}.{self.consumer}.1.{self.sequence}.{self.sequence}.{_NANOSECONDS}.0"


def link_bytes(subject: str, payload: int) -> int:
    """Return the bytes of one message on the sockets of its publisher and of one subscriber."""
    return sum(JetStream().traffic(subject, payload))


def _size(command: str, payload: int, headers: Mapping[str, str] | None = None) -> int:
    """Return the bytes of a command and its body. With headers the command starts with H and has their size."""
    if not headers:
        return len(f"{command} {payload}".encode()) + _LINE + payload + _LINE
    size = len(encode_headers(headers))
    return len(f"H{command} {size} {size + payload}".encode()) + _LINE + size + payload + _LINE
