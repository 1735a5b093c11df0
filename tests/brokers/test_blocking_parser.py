"""What a server sends comes out the same however it arrives: by the compiled kernel, and one by one."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("nats")

from thinwire.brokers.nats.blocking.delivery_scanner import FULL, MORE, ODD
from thinwire.brokers.nats.blocking.log_range import Scanner
from thinwire.brokers.nats.blocking.socket_connection import Garbled, NatsMessage, parse

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


def _wire(data: bytes) -> Any:
    return SimpleNamespace(data=bytearray(data), begin=0, end=len(data))


@settings(max_examples=60, deadline=None)
@given(deliveries, st.integers(0, 5000))
def test_deliveries_are_found_wherever_the_bytes_end(found: list[Delivery], end: int) -> None:
    data = b"".join(item.command(number, 9) for number, item in enumerate(found, 1))
    wire = _wire(b"PING" + data)
    wire.begin, wire.end = 4, 4 + min(end, len(data))
    scanner = Scanner()
    pieces = []
    for stop in (wire.end, len(wire.data)):
        wire.end = stop
        piece, why = scanner.take(wire, SID)
        assert why == MORE
        if piece is not None:
            pieces.append(piece)
    assert wire.begin == wire.end
    assert [n for piece in pieces for n in piece.numbers.tolist()] == list(range(1, len(found) + 1))
    rows = [
        row
        for block in (piece.block for piece in pieces)
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
def test_whatever_is_no_delivery_is_left_alone(command: bytes) -> None:
    wire = _wire(GOOD + command + GOOD)
    piece, why = Scanner().take(wire, SID)
    assert piece is not None
    assert (len(piece.numbers), why, wire.begin) == (1, ODD, len(GOOD))


def test_columns_that_are_full_are_filled_again() -> None:
    wire = _wire(GOOD * 10_000)
    scanner = Scanner()
    first, why = scanner.take(wire, SID)
    second, then = scanner.take(wire, SID)
    assert first is not None
    assert second is not None
    assert (why, then, len(first.numbers) + len(second.numbers)) == (FULL, MORE, 10_000)


COMMANDS: dict[bytes, NatsMessage | bytes] = {
    b"PING\r\n": b"PING",
    b"MSG a 1 2\r\nhi\r\n": NatsMessage(b"a", b"", None, b"hi"),
    b"MSG a 1 reply 0\r\n\r\n": NatsMessage(b"a", b"reply", None, b""),
    b"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n": NatsMessage(b"a", b"", b"NATS/1.0\r\n\r\n", b"hi"),
}


@given(st.lists(st.sampled_from(sorted(COMMANDS))))
def test_one_by_one(commands: list[bytes]) -> None:
    data = bytearray(b"".join(commands))
    at = 0
    for command in commands:
        after = at + len(command)
        assert all(parse(data, at, end) is None for end in range(at, after))
        assert parse(data, at, len(data)) == (COMMANDS[command], after)
        at = after


@pytest.mark.parametrize("garbage", [b"MSG a\r\n", b"MSG a 1 x\r\n", b"HMSG a 1 x 3\r\nabc\r\n", b"x" * (1 << 21)])
def test_garbage(garbage: bytes) -> None:
    with pytest.raises(Garbled):
        parse(bytearray(garbage), 0, len(garbage))
