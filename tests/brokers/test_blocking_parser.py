"""The compiled scanner finds deliveries in a receive buffer and leaves all other commands."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.brokers.nats.blocking.delivery_scanner import FULL, MORE, OTHER, DeliveryReader

SID = 7


class Delivery(NamedTuple):
    subject: str
    offset: int
    nanoseconds: int
    payload: bytes
    headers: bytes = b""
    account: str = ""

    def command(self, number: int, pending: int) -> bytes:
        ack = f"$JS.ACK.{self.account}tw_log.abcde.1.{self.offset}.{number}.{self.nanoseconds}.{pending}"
        if self.account:
            ack += ".token"
        size = len(self.headers) + len(self.payload)
        sizes = f"{len(self.headers)} {size}" if self.headers else f"{size}"
        kind = "HMSG" if self.headers else "MSG"
        return f"{kind} {self.subject} {SID} {ack} {sizes}\r\n".encode() + self.headers + self.payload + b"\r\n"


deliveries = st.lists(
    st.builds(
        Delivery,
        st.sampled_from(["tw.a", "tw.b", "tw.aa", "tw.ä", "tw.a.b"]),
        st.integers(1, 2**53),
        st.integers(0, 2**62),
        st.binary(max_size=30) | st.sampled_from([b"\r\n", b"MSG x 7 1\r\n"]),
        st.sampled_from([b"", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"]),
        st.sampled_from(["", "domain.account."]),
    ),
    max_size=30,
)


def _buffer(data: bytes) -> Any:
    return SimpleNamespace(data=bytearray(data), begin=0, end=len(data))


@settings(max_examples=60, deadline=None)
@given(deliveries, st.integers(0, 5000))
def test_deliveries_are_found_wherever_the_bytes_end(found: list[Delivery], end: int) -> None:
    data = b"".join(item.command(number, 9) for number, item in enumerate(found, 1))
    buffer = _buffer(b"PING" + data)
    buffer.begin, buffer.end = 4, 4 + min(end, len(data))
    reader = DeliveryReader()
    deliveriess = []
    for stop in (buffer.end, len(buffer.data)):
        buffer.end = stop
        deliveries, why = reader.take(buffer, SID)
        assert why == MORE
        if deliveries is not None:
            deliveriess.append(deliveries)
    assert buffer.begin == buffer.end
    assert [n for deliveries in deliveriess for n in deliveries.numbers.tolist()] == list(range(1, len(found) + 1))
    rows = [
        row
        for block in (deliveries.block for deliveries in deliveriess)
        for row in zip(block.subjects, block.offsets.tolist(), block.times.tolist(), block.payloads, strict=True)
    ]
    assert rows == [(item.subject, item.offset, item.nanoseconds // 1000 / 1e6, item.payload) for item in found]


GOOD = Delivery("tw.a", 5, 10**18, b"abc").command(1, 0)


@pytest.mark.parametrize(
    "command",
    [
        b"PING\r\n",
        b"-ERR 'Stale Connection'\r\n",
        b"HMSG _INBOX.x.9 7 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n",
        GOOD.replace(b" 7 ", b" 8 "),
        GOOD.replace(b"$JS.ACK", b"$JS.NAK"),
        GOOD.replace(b".5.1.", b".x.1."),
        GOOD.replace(b".5.1.", b".5.1.1.1.1.1.1.1.1.1.1."),
        GOOD.replace(b" 3\r\n", b" x\r\n"),
        GOOD.replace(b" 3\r\n", b" 99999999999999999999\r\n"),
        GOOD.replace(b"tw.a", b"tw.a b c d e f g"),
    ],
)
def test_other_commands_are_not_consumed(command: bytes) -> None:
    buffer = _buffer(GOOD + command + GOOD)
    deliveries, why = DeliveryReader().take(buffer, SID)
    assert deliveries is not None
    assert (len(deliveries.numbers), why, buffer.begin) == (1, OTHER, len(GOOD))


def test_a_full_table_is_reused() -> None:
    buffer = _buffer(GOOD * 10_000)
    reader = DeliveryReader()
    first, why = reader.take(buffer, SID)
    second, then = reader.take(buffer, SID)
    assert first is not None
    assert second is not None
    assert (why, then, len(first.numbers) + len(second.numbers)) == (FULL, MORE, 10_000)
