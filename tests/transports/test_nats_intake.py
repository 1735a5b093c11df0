"""What a server sends is taken apart the same way however it is split on the wire."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("nats")

from thinwire.brokers.nats.client import MAX_LINE, NatsDataProtocol

Message = tuple[bytes, bytes, bytes, bytes | None]

words = st.text("abcXYZ019_$-", min_size=1, max_size=8).map(str.encode)
subjects = st.lists(words, min_size=1, max_size=4).map(b".".join)
payloads = st.binary(max_size=40) | st.just(b"MSG a 1 3\r\nabc\r\n") | st.just(b"\r\n")
blocks = st.none() | st.just(b"NATS/1.0 404 None\r\n\r\n") | st.just(b"NATS/1.0\r\nA: b\r\n\r\n")
messages = st.tuples(subjects, st.just(b"") | subjects, payloads, blocks)
lines = st.sampled_from([b"PING", b"PONG", b"+OK", b"-ERR 'Permissions Violation'", b'INFO {"a": 1}'])


def _on_the_wire(item: Message | bytes) -> bytes:
    if isinstance(item, bytes):
        return item + b"\r\n"
    subject, reply, payload, block = item
    address = b" ".join([subject, b"7", *([reply] if reply else [])])
    if block is None:
        return b"MSG %b %d\r\n%b\r\n" % (address, len(payload), payload)
    return b"HMSG %b %d %d\r\n%b%b\r\n" % (address, len(block), len(block) + len(payload), block, payload)


def _intake(taken: list[Message]) -> NatsDataProtocol:
    def handler(subject: bytes, reply: bytes, payload: bytes, block: bytes | None) -> None:
        taken.append((subject, reply, payload, block))

    return NatsDataProtocol({7: handler}, asyncio.Protocol())


def _odd(intake: NatsDataProtocol) -> list[bytes | None]:
    return [intake.odd.get_nowait() for _ in range(intake.odd.qsize())]


@given(st.lists(messages | lines, max_size=12), st.data())
def test_any_split_gives_the_same(sent: list[Message | bytes], data: st.DataObject) -> None:
    wire = b"".join(map(_on_the_wire, sent))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire)), max_size=20)))
    taken: list[Message] = []
    intake = _intake(taken)
    for begin, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        intake.data_received(wire[begin:end])
    assert taken == [item for item in sent if not isinstance(item, bytes)]
    assert _odd(intake) == [item for item in sent if isinstance(item, bytes)]


def test_byte_by_byte() -> None:
    taken: list[Message] = []
    intake = _intake(taken)
    expected: Message = (b"a.b", b"r", b"hello", b"NATS/1.0\r\n\r\n")
    for byte in _on_the_wire(expected):
        intake.data_received(bytes([byte]))
    assert taken == [expected]


@pytest.mark.parametrize("garbage", [b"MSG a b c\r\n", b"HMSG a\r\n", b"MSG\r\n", b"M" * (MAX_LINE + 1)])
def test_what_is_not_nats_ends_the_connection(garbage: bytes) -> None:
    with pytest.raises(ConnectionError):
        _intake([]).data_received(garbage)


def test_an_inlet_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[bytes] = []

    def handler(subject: bytes, reply: bytes, payload: bytes, block: bytes | None) -> None:
        taken.append(payload)
        if payload == b"bad":
            raise ValueError(payload)

    intake = NatsDataProtocol({7: handler}, asyncio.Protocol())
    intake.data_received(b"MSG a 7 3\r\nbad\r\nMSG a 8 4\r\nnone\r\nMSG a 7 4\r\ngood\r\n")
    assert taken == [b"bad", b"good"]
    assert "could not be taken in" in caplog.text


def test_the_end_is_told() -> None:
    ended: list[object] = []

    class Behind(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.append(exc)

    intake = NatsDataProtocol({}, Behind())
    intake.connection_lost(None)
    assert _odd(intake) == [None]
    assert ended == [None]
