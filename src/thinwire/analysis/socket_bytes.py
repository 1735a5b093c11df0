"""Every byte on the sockets of a publisher and its subscriber, for messages that were never sent.

Counted are the message to the broker and its acknowledgement, its delivery, the subscriber's acknowledgements (one for
many), the headers of a message that comes after a pause (the publisher then insists on being the only one under its
name), and what the broker says to a silent subscriber every five seconds. Left out: connecting, subscribing, pings,
TLS, TCP and IP, and what registry and client say to each other now and then.

>>> ours, plain = Sockets.of_topic("building.rooms"), Sockets.of_json("building.rooms")
>>> ours.message(12), plain.message(12)
(274, 266)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

from thinwire.brokers.nats.jetstream_api import EXPECT, EXPECT_WITHIN
from thinwire.brokers.protocol_overhead import JetStream
from thinwire.topics.names import data_subject, key_subject, log_of, publisher_subjects

PUBLISHER = "publisher"
"""a publisher's name of common length"""
FENCE_AFTER = 1.0
"""seconds without an acknowledgement after which a publisher's message carries headers"""
BROKER_SPEAKS = 5.0
"""seconds of silence after which the broker says that it is still there"""
OUR_LIMIT, JSON_LIMIT = 256, 1024
"""messages that a subscriber lets come ahead; it acknowledges when a quarter of them is worked off"""

_CONSUMER, _INBOX = "x" * 5, "_INBOX." + "x" * 8 + "." + "x" * 4
_DELIVERED_TO = "_INBOX." + "x" * 8 + ".d.xx"
_BROKER_SAYS = "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {0}\r\nNats-Last-Stream: {0}\r\n\r\n"


@dataclass
class Sockets:
    """The bytes of one link; `messages` counts on, for the numbers in the protocol grow with it.

    quarter: messages that one acknowledgement of the subscriber stands for
    within: the pattern a publisher insists on after a pause; "" for those who do not
    """

    log: str
    subject: str
    key_subject: str
    quarter: int
    within: str = ""
    messages: int = field(default=0)

    @classmethod
    def of_topic(cls, topic: str, publisher: str = PUBLISHER) -> Sockets:
        """Ours: frames into the log of a topic."""
        data, key = data_subject(topic, publisher), key_subject(topic, publisher)
        return cls(log_of(topic), data, key, OUR_LIMIT // 4, publisher_subjects(topic, publisher))

    @classmethod
    def of_json(cls, topic: str, publisher: str = PUBLISHER) -> Sockets:
        """What a team would do without us: JSON into a log of the broker, through the same client."""
        subject = f"json.{topic}.{publisher}.0"
        return cls("json_" + topic.replace(".", "~"), subject, subject, JSON_LIMIT // 4)

    def message(self, size: int, *, idle: float = 0.0, key: bool = False) -> int:
        """The bytes of the next message; `idle`: seconds since the one before was acknowledged."""
        self.messages += 1
        fenced = bool(self.within) and idle >= FENCE_AFTER
        subject = self.key_subject if key else self.subject
        bytes_ = _bytes(self.log, subject, self.within if fenced else "", len(str(self.messages)), len(str(size)))
        if not self.messages % self.quarter:
            bytes_ += _acknowledgement(self.log, self.messages)
        if idle >= BROKER_SPEAKS and math.isfinite(idle):
            bytes_ += int(idle // BROKER_SPEAKS) * _silence(len(str(self.messages)))
        return bytes_ + 2 * size


@lru_cache(maxsize=4096)
def _bytes(log: str, subject: str, within: str, digits: int, size_digits: int) -> int:
    """What a message costs beside its payload, which travels twice."""
    number = 10 ** (digits - 1)
    size = 10 ** (size_digits - 1) if size_digits > 1 else 0
    headers = {EXPECT: str(number), EXPECT_WITHIN: within} if within else {}
    traffic = JetStream(log, _CONSUMER, number, _INBOX).traffic(subject, size, headers)
    return traffic.published + traffic.stored + traffic.delivered - 2 * size


def _acknowledgement(log: str, number: int) -> int:
    return len(f"PUB $JS.ACK.{log}.{_CONSUMER}.1.{number}.{number}.0.0 0\r\n\r\n")


@lru_cache(maxsize=32)
def _silence(digits: int) -> int:
    block = _BROKER_SAYS.format("1" * digits)
    return len(f"HMSG {_DELIVERED_TO} 2 {len(block)} {len(block)}\r\n{block}\r\n")
