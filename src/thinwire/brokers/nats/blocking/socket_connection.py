"""Blocking driver of the NATS protocol: one connection to one server, and its receive buffer."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from thinwire.brokers.nats.options import NatsOptions, Tls
from thinwire.brokers.nats.protocol_core import (
    MAX_LINE,
    MAX_MESSAGE,
    CommandHandler,
    ProtocolError,
    ServerInfo,
    connect_command,
    is_accepted,
    parse_commands,
    parse_info,
    requires_tls,
)
from thinwire.brokers.nats.server_pool import Server

BUFFER_SIZE = 1 << 20
"""initial bytes of the buffer; it grows only for a larger message"""


class ConnectionLost(Exception):
    """The connection is closed, or the peer does not respond."""


class BlockingSocket:
    """A connection to a server, until it is lost. Received bytes that are not consumed are `data[begin:end]`.

    The buffer is public because the compiled scanner reads deliveries directly from it.
    """

    def __init__(self, server: Server, options: NatsOptions, deadline: float) -> None:
        self.data = bytearray(BUFFER_SIZE)
        self.begin = self.end = 0
        self._incomplete = -1, 0
        """begin of an incomplete command, and the end of the buffer that is needed to continue"""
        self._deadline = deadline
        self._socket = socket.create_connection((server.host, server.port), timeout=self._remaining())
        try:
            self.info = self._handshake(server, options)
        except BaseException:
            self.close()
            raise

    def send(self, command: bytes) -> None:
        """Write a command completely, in bounded time."""
        try:
            self._socket.sendall(command)
        except OSError:
            raise ConnectionLost from None

    def receive(self, timeout: float) -> bool:
        """Read more bytes into the buffer. Return False if none arrive within `timeout` seconds."""
        try:
            self._fill(max(timeout, 0.001))
        except TimeoutError:
            return False
        except OSError:
            raise ConnectionLost from None
        return True

    def parse(self, handler: CommandHandler, *, limit: int = 0) -> bool:
        """Pass the commands of the buffer to `handler`, at most `limit` if given. Return False if none is complete."""
        begin, end_needed = self._incomplete
        if self.begin == begin and self.end < end_needed:
            return False
        unparsed = bytes(memoryview(self.data)[self.begin : self.end])
        consumed, missing = parse_commands(unparsed, 0, len(unparsed), handler, limit=limit)
        self.begin += consumed
        self._incomplete = self.begin, self.end + missing
        return consumed > 0

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _make_room(self) -> None:
        if self.begin == self.end:
            self.begin = self.end = 0
        if self.end < len(self.data):
            return
        if self.begin:  # move the content to the front; a slice assignment keeps the size
            length = self.end - self.begin
            self.data[:length] = self.data[self.begin : self.end]
            self.begin, self.end = 0, length
        elif len(self.data) >= MAX_MESSAGE:
            raise ConnectionLost
        else:
            self.data = self.data + bytes(len(self.data))  # at most twice the bytes that have arrived

    def _handshake(self, server: Server, options: NatsOptions) -> ServerInfo:
        info = parse_info(self._line())
        if requires_tls(info, options):
            self._start_tls(server, options.tls or Tls())
        self._socket.settimeout(self._remaining())
        self._socket.sendall(connect_command(info, options))
        while not is_accepted(self._line()):
            pass
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return info

    def _start_tls(self, server: Server, tls: Tls) -> None:
        if self.begin != self.end:
            raise ProtocolError  # clear text after INFO must not be mistaken for encrypted data
        self._socket.settimeout(self._remaining())
        self._socket = tls.context().wrap_socket(self._socket, server_hostname=tls.hostname or server.tls_name)

    def _line(self) -> bytes:
        """Return the next line of the handshake."""
        while (stop := self.data.find(b"\r\n", self.begin, self.end)) < 0:
            if self.end - self.begin > MAX_LINE:
                raise ProtocolError
            self._fill(self._remaining())
        line = bytes(self.data[self.begin : stop])
        self.begin = stop + 2
        return line

    def _fill(self, timeout: float) -> None:
        """Read bytes into the buffer."""
        self._make_room()
        self._socket.settimeout(timeout)
        count = self._socket.recv_into(memoryview(self.data)[self.end :])
        if not count:
            raise ConnectionResetError("connection closed by the server")
        self.end += count

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining
