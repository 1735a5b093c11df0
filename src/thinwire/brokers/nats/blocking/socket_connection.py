"""What a client says about itself when a server has introduced itself; secrets go nowhere else.

What a NATS server sends, one command at a time: for answers, and for whatever else is rare.

>>> data = bytearray(b"MSG in.1 7 3\\r\\nabc\\r\\nPING\\r\\n")
>>> parse(data, 0, len(data))
(NatsMessage(subject=b'in.1', reply=b'', headers=None, payload=b'abc'), 19)
>>> parse(data, 19, len(data))
(b'PING', 25)
>>> parse(data, 0, 16) is None
True

One socket to a NATS server, and the bytes that have come through it and wait.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nats import errors

from thinwire.brokers.nats.client import MAX_LINE, NoTls
from thinwire.brokers.nats.options import NatsOptions, Tls
from thinwire.errors import ConfigError, MissingExtra

_JWT, _SEED = b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED"


def read_info(line: bytes) -> dict[str, Any]:
    """What the server tells of itself in its first line."""
    if not line.startswith(b"INFO "):
        raise errors.Error("nats: expecting INFO")
    try:
        info = json.loads(line[5:])
    except ValueError:
        raise errors.Error("nats: expecting INFO") from None
    if not isinstance(info, dict):
        raise errors.Error("nats: expecting INFO")
    return info


def connect_command(info: dict[str, Any], options: NatsOptions) -> bytes:
    """The line by which the server knows this client."""
    told = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": "thinwire",
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        **_identity(str(info.get("nonce", "")), options),
    }
    if options.name is not None:
        told["name"] = options.name
    return b"CONNECT %b\r\n" % json.dumps(told, separators=(",", ":")).encode()


def _identity(nonce: str, options: NatsOptions) -> dict[str, str]:
    """By the first of the ways that is given."""
    if options.token is not None:
        return {"auth_token": options.token}
    if options.user is not None and options.password is not None:
        return {"user": options.user, "pass": options.password}
    if options.credentials is None and options.nkey is None:
        return {}
    try:
        return _signed(nonce, options)
    except ImportError:
        raise MissingExtra("credentials and nkey files need the package nkeys", extra="nats") from None
    except Exception as error:
        # whatever a reader of keys says, it may quote what it has read
        raise ConfigError("the credentials or nkey file cannot be used", kind=type(error).__name__) from None


def _signed(nonce: str, options: NatsOptions) -> dict[str, str]:
    import nkeys  # type: ignore[import-untyped]

    if options.credentials is not None:
        text = Path(options.credentials).read_bytes()
        seed, identity = _part(text, _SEED), {"jwt": _part(text, _JWT).decode()}
    else:
        assert options.nkey is not None
        seed, identity = Path(options.nkey).read_bytes().strip(), {}
    pair = nkeys.from_seed(bytearray(seed))
    if not identity:
        identity = {"nkey": pair.public_key.decode()}
    signature = base64.b64encode(pair.sign(nonce.encode())).decode()
    pair.wipe()
    return {**identity, "sig": signature}


def _part(text: bytes, heading: bytes) -> bytes:
    """The line behind a heading of a file of credentials."""
    return text.partition(heading)[2].splitlines()[1].strip()


_MSG, _HMSG = ord("M"), ord("H")


class Garbled(Exception):
    """This is no NATS server, or no longer one."""


class NatsMessage(NamedTuple):
    subject: bytes
    reply: bytes
    headers: bytes | None
    payload: bytes


def parse(data: bytearray, begin: int, end: int) -> tuple[NatsMessage | bytes, int] | None:
    """The command that begins here and where the next one does; a line where it is no message, None if incomplete."""
    stop = data.find(b"\r\n", begin, end)
    if stop < 0:
        if end - begin > MAX_LINE:
            raise Garbled
        return None
    line = bytes(data[begin:stop])
    if data[begin] not in (_MSG, _HMSG):
        return line, stop + 2
    try:
        return _message(data, line, stop + 2, end)
    except (ValueError, IndexError):
        raise Garbled from None


def _message(data: bytearray, line: bytes, begin: int, end: int) -> tuple[NatsMessage, int] | None:
    words = line.split()
    after = begin + int(words[-1])
    if after + 2 > end:
        return None
    headed = line[0] == _HMSG
    block = int(words[-2]) if headed else 0
    reply = words[3] if len(words) == (6 if headed else 5) else b""
    headers = bytes(data[begin : begin + block]) if headed else None
    return NatsMessage(words[1], reply, headers, bytes(data[begin + block : after])), after + 2


ROOM = 1 << 20
"""bytes that may wait; more only where one message is larger"""
MOST = 1 << 27
"""bytes that ever wait: NATS has no message as large as this"""


class ConnectionLost(Exception):
    """The connection is no more."""


class Wire:
    """A connection as long as it lasts: it does not come back by itself, another one is made."""

    def __init__(self, server: str, options: NatsOptions, deadline: float) -> None:
        self.data = bytearray(ROOM)
        self.begin = self.end = 0
        """where in `data` the bytes stand that nobody has taken yet"""
        parts = urlsplit(server)
        assert parts.hostname is not None
        assert parts.port is not None
        self._deadline = deadline
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=self._left())
        try:
            self.info = self._introduce(parts.hostname, options)
        except BaseException:
            self.close()
            raise

    def send(self, command: bytes) -> None:
        """Write all of it, in bounded time."""
        try:
            self._socket.sendall(command)
        except OSError:
            raise ConnectionLost from None

    def receive(self, patience: float) -> bool:
        """Let more bytes in; False when none came within so many seconds."""
        self._make_room()
        try:
            self._socket.settimeout(max(patience, 0.001))
            count = self._socket.recv_into(memoryview(self.data)[self.end :])
        except TimeoutError:
            return False
        except OSError:
            raise ConnectionLost from None
        if not count:
            raise ConnectionLost
        self.end += count
        return True

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _make_room(self) -> None:
        if self.begin == self.end:
            self.begin = self.end = 0
        if self.end < len(self.data):
            return
        if self.begin:  # what waits goes to the front; a slice assignment keeps the size
            waiting = self.end - self.begin
            self.data[:waiting] = self.data[self.begin : self.end]
            self.begin, self.end = 0, waiting
        elif len(self.data) >= MOST:
            raise ConnectionLost
        else:
            self.data = self.data + bytes(len(self.data))  # never more than has arrived already

    def _introduce(self, host: str, options: NatsOptions) -> dict[str, Any]:
        info = read_info(self._line())
        if options.tls is not None or info.get("tls_required"):
            self._encrypt(info, host, options)
        self._socket.settimeout(self._left())
        self._socket.sendall(connect_command(info, options) + b"PING\r\n")
        while (line := self._line()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise errors.Error(f"nats: {line[4:].decode('utf-8', 'replace').strip()}")
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return info

    def _encrypt(self, info: dict[str, Any], host: str, options: NatsOptions) -> None:
        """Credentials never go in the clear to a server that was to speak TLS."""
        if not info.get("tls_required") and not info.get("tls_available"):
            raise NoTls
        if self.begin != self.end:
            raise errors.Error("nats: expecting INFO")  # nothing that came in the clear counts from here on
        tls = options.tls or Tls()
        self._socket.settimeout(self._left())
        self._socket = tls.context().wrap_socket(self._socket, server_hostname=tls.hostname or host)

    def _line(self) -> bytes:
        """The next line, while introductions are made."""
        while (stop := self.data.find(b"\r\n", self.begin, self.end)) < 0:
            if self.end - self.begin > MAX_LINE:
                raise errors.Error("nats: expecting INFO")
            self._more()
        line = bytes(self.data[self.begin : stop])
        self.begin = stop + 2
        return line

    def _more(self) -> None:
        """Like `receive`, but says why there is nothing."""
        self._make_room()
        self._socket.settimeout(self._left())
        count = self._socket.recv_into(memoryview(self.data)[self.end :])
        if not count:
            raise ConnectionResetError("hung up")
        self.end += count

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left
