"""The NATS client protocol without I/O: commands from the server are parsed, commands to the server are encoded.

Both drivers, asyncio and blocking, use it. A message has a fixed part in a line, a header block and a payload; every
other command is one line.

Opening exchange: the server sends INFO. The client starts TLS if either side requires it, and sends CONNECT with its
credentials and PING. The server replies with PONG, or with -ERR. If TLS is configured, credentials are never sent in
clear text.

>>> class Printer:
...     def on_message(self, sid, subject, reply, payload, headers):
...         print(sid, subject, reply, payload, headers)
...     def on_line(self, line):
...         print(line)
>>> parse_commands(b"MSG in.1 7 3\\r\\nabc\\r\\nPING\\r\\nMSG in.1 7 5\\r\\nab", 0, 41, Printer())
7 b'in.1' b'' b'abc' None
b'PING'
(25, 5)
>>> publish_command("rooms.a", b"21.5", reply="in.1")
b'PUB rooms.a in.1 4\\r\\n21.5\\r\\n'

>>> block = b"NATS/1.0 404 Message Not Found\\r\\n\\r\\n"
>>> parse_status(block), parse_status(b"NATS/1.0\\r\\nNats-Sequence: 7\\r\\n\\r\\n")
(404, 0)
>>> parse_headers(b"NATS/1.0\\r\\nNats-Sequence: 7\\r\\n\\r\\n")
{'Nats-Sequence': '7'}
>>> encode_headers({"KV-Operation": "DEL"})
b'NATS/1.0\\r\\nKV-Operation: DEL\\r\\n\\r\\n'
"""

from __future__ import annotations

import base64
import json
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from thinwire.brokers.nats.options import NatsOptions
from thinwire.errors import ConfigError, MissingExtra

MAX_LINE = 1 << 20
"""bytes of a line; a longer one is not NATS"""
MAX_MESSAGE = 1 << 27
"""bytes of headers and payload; NATS servers allow at most 64 MB"""
PING, PONG = b"PING\r\n", b"PONG\r\n"

_MSG = ord("M")
_JWT, _SEED = b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED"
_DEFAULT_MAX_PAYLOAD = 1 << 20
_LETTERS = string.ascii_letters + string.digits

MessageHandler = Callable[[bytes, bytes, bytes, bytes | None], None]
"""receives subject, reply subject, payload and header block of a message; it must not block"""


class ProtocolError(Exception):
    """The peer does not speak the NATS protocol."""


class ServerError(Exception):
    """An -ERR message of the server, in lower case."""

    @classmethod
    def from_line(cls, line: bytes) -> ServerError:
        """
        >>> ServerError.from_line(b"-ERR 'Authorization Violation'")
        ServerError('authorization violation')
        """
        return cls(line[4:].decode("utf-8", "replace").strip().strip("'").lower())


class CommandHandler(Protocol):
    """Receives the commands that `parse_commands` finds."""

    def on_message(self, sid: int, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        """MSG or HMSG, for the subscription `sid`."""

    def on_line(self, line: bytes) -> None:
        """INFO, PING, PONG, +OK or -ERR, without the line end."""


def parse_commands(data: bytes, begin: int, end: int, handler: CommandHandler, *, limit: int = 0) -> tuple[int, int]:
    """Pass the complete commands in `data[begin:end]` to `handler`, at most `limit` of them if given.

    Return the index of the first byte that was not consumed, and the minimum number of bytes to read before the next
    call (0 if the limit was reached). Raise `ProtocolError` for data that is not NATS.
    """
    on_message = handler.on_message
    while (stop := data.find(b"\r\n", begin, end)) >= 0:
        kind = data[begin]
        if kind in b"MH":
            body = stop + 2
            try:
                words = data[begin:stop].split()
                sid, size = int(words[2]), int(words[-1])
                headers_size = 0 if kind == _MSG else int(words[-2])
            except (ValueError, IndexError):
                raise ProtocolError from None
            if not 0 <= headers_size <= size <= MAX_MESSAGE:
                raise ProtocolError
            after = body + size
            if after + 2 > end:
                return begin, after + 2 - end
            begin = after + 2
            if kind == _MSG:
                on_message(sid, words[1], words[3] if len(words) == 5 else b"", data[body:after], None)
            else:
                payload = body + headers_size
                reply = words[3] if len(words) == 6 else b""
                on_message(sid, words[1], reply, data[payload:after], data[body:payload])
        else:
            line, begin = data[begin:stop], stop + 2
            handler.on_line(line)
        limit -= 1
        if not limit:  # without a limit the count is negative
            return begin, 0
    if end - begin > MAX_LINE:
        raise ProtocolError
    return begin, 1


def publish_command(subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> bytes:
    """Return PUB, or HPUB if there is a header block."""
    address = f"{subject} {reply}" if reply else subject
    if headers:
        line = f"HPUB {address} {len(headers)} {len(headers) + len(payload)}\r\n"
        return b"%b%b%b\r\n" % (line.encode(), headers, payload)
    return b"%b%b\r\n" % (f"PUB {address} {len(payload)}\r\n".encode(), payload)


def subscribe_command(subject: str, sid: int) -> bytes:
    return b"SUB %b %d\r\n" % (subject.encode(), sid)


def unsubscribe_command(sid: int) -> bytes:
    return b"UNSUB %d\r\n" % sid


def parse_status(block: bytes | None) -> int:
    """Return the status code of a header block; 0 if it has none."""
    if block is None or block[8:9] != b" ":
        return 0
    digits = block[9:12]
    return int(digits) if digits.isdigit() else 0


def parse_headers(block: bytes | None) -> dict[str, str]:
    """Return names and values of a header block; the last value if a name is repeated."""
    if block is None:
        return {}
    lines = block.decode("utf-8", "replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def encode_headers(fields: Mapping[str, str]) -> bytes:
    """Return the header block that precedes the payload."""
    lines = b"".join(f"{name}: {value}\r\n".encode() for name, value in fields.items())
    return b"NATS/1.0\r\n%b\r\n" % lines


def random_name(count: int) -> str:
    """Return `count` random letters and digits, for inboxes and consumers."""
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


class TlsUnavailable(Exception):
    """TLS was requested and the server does not offer it."""


@dataclass(frozen=True)
class ServerInfo:
    """The fields of INFO that a client needs. `connect_urls` are the other servers of the cluster, as host:port."""

    max_payload: int
    tls_required: bool
    tls_available: bool
    nonce: str
    connect_urls: tuple[str, ...]


def parse_info(line: bytes) -> ServerInfo:
    """Parse an INFO line.

    >>> parse_info(b'INFO {"max_payload":1000}').max_payload
    1000
    """
    if not line.startswith(b"INFO "):
        raise ProtocolError
    try:
        info = json.loads(line[5:])
        return ServerInfo(
            int(info.get("max_payload", _DEFAULT_MAX_PAYLOAD)),
            bool(info.get("tls_required")),
            bool(info.get("tls_available")),
            str(info.get("nonce", "")),
            tuple(map(str, info.get("connect_urls") or ())),
        )
    except (ValueError, TypeError, AttributeError):
        raise ProtocolError from None


def requires_tls(info: ServerInfo, options: NatsOptions) -> bool:
    """Return whether TLS starts after INFO. Raise `TlsUnavailable` if it is requested and not offered."""
    if options.tls is not None and not info.tls_required and not info.tls_available:
        raise TlsUnavailable
    return options.tls is not None or info.tls_required


def connect_command(info: ServerInfo, options: NatsOptions) -> bytes:
    """Return CONNECT with the credentials, followed by PING."""
    fields: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": "thinwire",
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        **_credentials(info.nonce, options),
    }
    if options.name is not None:
        fields["name"] = options.name
    return b"CONNECT %b\r\nPING\r\n" % json.dumps(fields, separators=(",", ":")).encode()


def is_accepted(line: bytes) -> bool:
    """Return whether the line accepts CONNECT; False for a line that does not decide. Raise `ServerError` for -ERR."""
    if line.startswith(b"-ERR"):
        raise ServerError.from_line(line)
    return line == b"PONG"


def _credentials(nonce: str, options: NatsOptions) -> dict[str, str]:
    """Return the credentials of the first method that is configured."""
    if options.token is not None:
        return {"auth_token": options.token}
    if options.user is not None and options.password is not None:
        return {"user": options.user, "pass": options.password}
    if options.credentials is None and options.nkey is None:
        return {}
    try:
        return _signed_credentials(nonce, options)
    except ImportError:
        raise MissingExtra("credentials and nkey files need the package nkeys", extra="nats") from None
    except Exception as error:
        # the original message may quote the key
        raise ConfigError("the credentials or nkey file cannot be used", kind=type(error).__name__) from None


def _signed_credentials(nonce: str, options: NatsOptions) -> dict[str, str]:
    import nkeys  # type: ignore[import-untyped]

    if options.credentials is not None:
        text = Path(options.credentials).read_bytes()
        seed, identity = _section(text, _SEED), {"jwt": _section(text, _JWT).decode()}
    else:
        assert options.nkey is not None
        seed, identity = Path(options.nkey).read_bytes().strip(), {}
    pair = nkeys.from_seed(bytearray(seed))
    if not identity:
        identity = {"nkey": pair.public_key.decode()}
    signature = base64.b64encode(pair.sign(nonce.encode())).decode()
    pair.wipe()
    return {**identity, "sig": signature}


def _section(text: bytes, heading: bytes) -> bytes:
    """Return the line after a heading of a credentials file."""
    return text.partition(heading)[2].splitlines()[1].strip()
