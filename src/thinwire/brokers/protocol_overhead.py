"""What a broker adds to a message, in bytes on the socket: a stand-in until a real broker is measured.

The bytes are those of the NATS client protocol's own text, with JetStream acknowledging both ways:

    publisher -> broker     PUB subject inbox size, payload                    (HPUB with headers)
    broker -> publisher     MSG inbox sid size, {"stream":"...","seq":...}
    broker -> subscriber    MSG subject sid ack-subject size, payload          (HMSG with headers)
    subscriber -> broker    PUB ack-subject  0                                 (an empty body acknowledges)

where ack-subject is $JS.ACK.stream.consumer.deliveries.sequence.sequence.nanoseconds.pending. Each subscriber has the
third and the fourth line once. Assumed: first delivery, a consumer that keeps up (pending 0), one-digit subscription
numbers, the Python client's inbox of 56 characters. Left out: pull requests, pings, redelivery, TLS, TCP and IP.
Under these assumptions the sizes equal, byte for byte, what nats-server 2.15 and nats-py 2.16 exchanged.

>>> traffic = JetStream(stream="rooms", consumer="hvac").traffic("building.rooms", 12)
>>> traffic
Traffic(published=94, stored=101, delivered=98, acknowledged=69)
>>> link_bytes("building.rooms", 12, subscribers=3)
753
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from thinwire.brokers.protocol import NO_HEADERS
from thinwire.errors import ConfigError

_INBOX = "_INBOX." + "x" * 22 + "." + "x" * 26
_REPLY_SID, _DELIVERY_SID = "1", "2"
_NO_REPLY = ""
_NANOSECONDS = "1" * 19
_LINE = len("\r\n")


class Traffic(NamedTuple):
    """The bytes of one message: to the broker and its answer, then to one subscriber and its answer."""

    published: int
    stored: int
    delivered: int
    acknowledged: int

    def total(self, subscribers: int = 1) -> int:
        """All of it on every socket, with so many subscribers."""
        return self.published + self.stored + subscribers * (self.delivered + self.acknowledged)


@dataclass(frozen=True)
class JetStream:
    """A stream and a consumer, whose names travel with every delivery.

    sequence: a typical one; its digits are what matters
    inbox: where acknowledgements come to; clients differ in the length they give it
    """

    stream: str = "thinwire"
    consumer: str = "subscriber"
    sequence: int = 1_000_000
    inbox: str = _INBOX

    def traffic(self, subject: str, payload: int, headers: Mapping[str, str] = NO_HEADERS) -> Traffic:
        """The bytes of a message with a payload of this size."""
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


def link_bytes(subject: str, payload: int, headers: Mapping[str, str] = NO_HEADERS, subscribers: int = 1) -> int:
    """All bytes of one message on the sockets of its publisher and its subscribers."""
    if subscribers < 0:
        raise ConfigError("there are 0 subscribers or more", subscribers=subscribers)
    return JetStream().traffic(subject, payload, headers).total(subscribers)


def _size(command: str, payload: int, headers: Mapping[str, str] = NO_HEADERS) -> int:
    """The bytes of a command line and its body; headers add an H in front and their own size to the line."""
    if not headers:
        return len(f"{command} {payload}".encode()) + _LINE + payload + _LINE
    block = "NATS/1.0\r\n" + "".join(f"{name}: {text}\r\n" for name, text in headers.items()) + "\r\n"
    size = len(block.encode())
    return len(f"H{command} {size} {size + payload}".encode()) + _LINE + size + payload + _LINE
