"""The parser of the NATS protocol: the result does not depend on how the bytes are split."""

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.brokers.nats.asyncio_socket import AsyncioSocket
from thinwire.brokers.nats.protocol_core import (
    MAX_LINE,
    MAX_MESSAGE,
    MessageHandler,
    ProtocolError,
    ServerError,
    encode_headers,
    parse_commands,
    parse_headers,
    publish_command,
)

Message = tuple[bytes, bytes, bytes, bytes | None]
SID = 7

tokens = st.text("abcXYZ019_$-", min_size=1, max_size=8).map(str.encode)
subjects = st.lists(tokens, min_size=1, max_size=4).map(b".".join)
payloads = st.binary(max_size=40) | st.just(b"MSG a 1 3\r\nabc\r\n") | st.just(b"\r\n")
blocks = st.none() | st.just(b"NATS/1.0 404 None\r\n\r\n") | st.just(b"NATS/1.0\r\nA: b\r\n\r\n")
messages = st.tuples(subjects, st.just(b"") | subjects, payloads, blocks)
lines = st.sampled_from([b"PING", b"PONG", b"+OK", b"-ERR 'Permissions Violation'", b'INFO {"a": 1}'])


def _encode(item: Message | bytes) -> bytes:
    if isinstance(item, bytes):
        return item + b"\r\n"
    subject, reply, payload, block = item
    address = b" ".join([subject, b"%d" % SID, *([reply] if reply else [])])
    if block is None:
        return b"MSG %b %d\r\n%b\r\n" % (address, len(payload), payload)
    return b"HMSG %b %d %d\r\n%b%b\r\n" % (address, len(block), len(block) + len(payload), block, payload)


class Recorder:
    """Collects parsed commands."""

    def __init__(self) -> None:
        self.commands: list[Message | bytes] = []

    def on_message(self, sid: int, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        assert sid == SID
        self.commands.append((subject, reply, payload, headers))

    def on_line(self, line: bytes) -> None:
        self.commands.append(line)


def _socket(handlers: dict[int, MessageHandler]) -> AsyncioSocket:
    """A socket after its handshake."""

    async def create() -> AsyncioSocket:
        return AsyncioSocket(handlers, lambda error: None, lambda info: None, lambda socket: None)

    socket = asyncio.run(create())
    socket._handshake_lines = None
    return socket


@given(st.lists(messages | lines, max_size=12), st.integers(1, 5))
def test_commands_up_to_a_limit(sent: list[Message | bytes], limit: int) -> None:
    data = b"".join(map(_encode, sent))
    recorder, begin = Recorder(), 0
    while begin < len(data):
        before = len(recorder.commands)
        begin, _ = parse_commands(data, begin, len(data), recorder, limit=limit)
        assert 1 <= len(recorder.commands) - before <= limit
    assert recorder.commands == sent


@given(messages | lines)
def test_an_incomplete_command_is_not_consumed(item: Message | bytes) -> None:
    data = _encode(item)
    for end in range(len(data)):
        recorder = Recorder()
        consumed, missing = parse_commands(data, 0, end, recorder)
        assert (consumed, recorder.commands) == (0, [])
        assert 1 <= missing <= len(data) - end


@given(st.lists(messages, max_size=12), st.data())
def test_messages_do_not_depend_on_the_split(sent: list[Message], data: st.DataObject) -> None:
    wire = b"".join(map(_encode, sent))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire)), max_size=20)))
    received: list[Message] = []
    socket = _socket({SID: lambda *message: received.append(message)})
    for begin, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        socket.data_received(wire[begin:end])
    assert received == sent


@pytest.mark.parametrize(
    "garbage",
    [
        b"MSG a b c\r\n",
        b"MSG a\r\n",
        b"MSG a 1 x\r\n",
        b"MSG a 1 -5\r\n",
        b"HMSG a 1 -3 3\r\nabc\r\n",
        b"HMSG a 1 4 3\r\nabc\r\n",
        b"HMSG a 1 x 3\r\nabc\r\n",
        b"HMSG a\r\n",
        b"MSG\r\n",
        b"MSG a 1 %d\r\n" % (MAX_MESSAGE + 1),
        b"M" * (MAX_LINE + 1),
        b"x" * (MAX_LINE + 1),
    ],
)
def test_other_protocols_are_rejected(garbage: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_commands(garbage, 0, len(garbage), Recorder())


def test_a_protocol_error_aborts_the_connection() -> None:
    aborted: list[bool] = []

    class Transport:
        def abort(self) -> None:
            aborted.append(True)

    socket = _socket({})
    socket.connection_made(cast(Any, Transport()))
    socket.data_received(b"MSG a b c\r\n")
    assert aborted == [True]


def test_a_failing_handler_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    received: list[bytes] = []

    def handler(subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        received.append(payload)
        if payload == b"bad":
            raise ValueError(payload)

    _socket({SID: handler}).data_received(b"MSG a 7 3\r\nbad\r\nMSG a 8 4\r\nnone\r\nMSG a 7 4\r\ngood\r\n")
    assert received == [b"bad", b"good"]
    assert "handler failed" in caplog.text


def test_published_messages() -> None:
    headers = encode_headers({"A": "b"})
    assert publish_command("s", b"payload") == b"PUB s 7\r\npayload\r\n"
    assert publish_command("s", b"payload", "r", headers) == b"HPUB s r 18 25\r\n" + headers + b"payload\r\n"
    assert parse_headers(headers) == {"A": "b"}
    assert str(ServerError.from_line(b"-ERR 'Unknown Protocol Operation'")) == "unknown protocol operation"
