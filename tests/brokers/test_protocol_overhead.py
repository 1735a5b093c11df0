"""Computed bytes of the NATS protocol compared with those of a server and a client."""

import pytest

from thinwire.brokers.protocol_overhead import JetStream, link_bytes
from thinwire.errors import ConfigError

# As seen between nats-server 2.15 and nats-py 2.16 with a push consumer; the body is twelve bytes.
PLAIN = (
    b"PUB building.rooms _INBOX.qv8VzMNw4ZDA2pvieWlNGJ.qv8VzMNw4ZDA2pvieWlNP52d51 12\r\nxxxxxxxxxxxx\r\n",
    b'MSG _INBOX.qv8VzMNw4ZDA2pvieWlNGJ.qv8VzMNw4ZDA2pvieWlNP52d51 1 26\r\n{"stream":"rooms","seq":1}\r\n',
    b"MSG building.rooms 2 $JS.ACK.rooms.hvac.1.1.1.1794774287639825673.0 12\r\nxxxxxxxxxxxx\r\n",
    b"PUB $JS.ACK.rooms.hvac.1.1.1.1794774287639825673.0  0\r\n\r\n",
)
WITH_HEADERS = (
    b"HPUB building.rooms _INBOX.qv8VzMNw4ZDA2pvieWlNGJ.qv8VzMNw4ZDA2pvieWlNTTda26 31 43\r\n"
    b"NATS/1.0\r\ntw: 1\r\nOther: abc\r\n\r\nxxxxxxxxxxxx\r\n",
    b'MSG _INBOX.qv8VzMNw4ZDA2pvieWlNGJ.qv8VzMNw4ZDA2pvieWlNTTda26 1 26\r\n{"stream":"rooms","seq":2}\r\n',
    b"HMSG building.rooms 2 $JS.ACK.rooms.hvac.1.2.2.1794774288343542473.0 31 43\r\n"
    b"NATS/1.0\r\ntw: 1\r\nOther: abc\r\n\r\nxxxxxxxxxxxx\r\n",
    b"PUB $JS.ACK.rooms.hvac.1.2.2.1794774288343542473.0  0\r\n\r\n",
)


@pytest.mark.parametrize(
    ("sequence", "headers", "transcript"), [(1, {}, PLAIN), (2, {"tw": "1", "Other": "abc"}, WITH_HEADERS)]
)
def test_formula_equals_measured_bytes(sequence, headers, transcript):
    traffic = JetStream("rooms", "hvac", sequence).traffic("building.rooms", 12, headers)
    assert traffic == tuple(map(len, transcript))


def test_payload_is_counted_for_publisher_and_subscriber():
    assert link_bytes("a.b", 57) - link_bytes("a.b", 12) == 2 * 45


def test_impossible_sizes_are_refused():
    with pytest.raises(ConfigError, match="payload=-1"):
        link_bytes("a", -1)
