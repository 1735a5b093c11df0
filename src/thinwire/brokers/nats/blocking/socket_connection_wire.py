"""One socket to a NATS server, and the bytes that have come through it and wait."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from nats import errors

from thinwire.brokers.nats.blocking.socket_connection import connect_command, read_info
from thinwire.brokers.nats.client import NoTls
from thinwire.brokers.nats.client_intake import MAX_LINE
from thinwire.brokers.nats.options import Options, Tls

ROOM = 1 << 20
"""bytes that may wait; more only where one message is larger"""
MOST = 1 << 27
"""bytes that ever wait: NATS has no message as large as this"""


class Cut(Exception):
    """The connection is no more."""


class Wire:
    """A connection as long as it lasts: it does not come back by itself, another one is made."""

    def __init__(self, server: str, options: Options, deadline: float) -> None:
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
            raise Cut from None

    def receive(self, patience: float) -> bool:
        """Let more bytes in; False when none came within so many seconds."""
        self._make_room()
        try:
            self._socket.settimeout(max(patience, 0.001))
            count = self._socket.recv_into(memoryview(self.data)[self.end :])
        except TimeoutError:
            return False
        except OSError:
            raise Cut from None
        if not count:
            raise Cut
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
            raise Cut
        else:
            self.data = self.data + bytes(len(self.data))  # never more than has arrived already

    def _introduce(self, host: str, options: Options) -> dict[str, Any]:
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

    def _encrypt(self, info: dict[str, Any], host: str, options: Options) -> None:
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
