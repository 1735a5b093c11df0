"""The servers of a NATS cluster: order of attempts, discovery, and errors of failed attempts."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from thinwire.brokers.nats.options import DEFAULT_PORT
from thinwire.brokers.nats.protocol_core import ProtocolError, ServerError, TlsUnavailable
from thinwire.errors import BrokerRefused, BrokerUnavailable, ThinwireError

C = TypeVar("C")

RESET_RETRIES = 4
"""attempts at a server that resets the connection, in addition to the first"""
MAX_SERVERS = 256
"""servers of a cluster that are remembered"""
CONNECT_ERRORS = (OSError, ServerError, ProtocolError, TlsUnavailable)
"""errors of an attempt to connect to one server"""

_PERMISSION_ERROR = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')
_CREDENTIALS_WORDS = ("authorization", "authentication")


@dataclass(frozen=True)
class Server:
    """Address of a server. `tls_name` is the name in its certificate."""

    host: str
    port: int
    tls_name: str

    @classmethod
    def parse(cls, url: str, tls_name: str = "") -> Server:
        """
        >>> Server.parse("nats://broker:4222"), Server.parse("nats://10.0.0.7:4222", "broker").tls_name
        (Server(host='broker', port=4222, tls_name='broker'), 'broker')
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        return cls(host, parts.port or DEFAULT_PORT, tls_name or host)


class ServerPool:
    """The servers in the order of attempts. The servers of the cluster that a server names are added.

    >>> pool = ServerPool(["nats://a:4222"])
    >>> pool.discover(["b:4222", "a:4222"], pool.current)
    >>> [pool.advance().host for _ in range(3)]
    ['b', 'a', 'b']
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self._servers = [Server.parse(url) for url in urls]

    def __len__(self) -> int:
        return len(self._servers)

    @property
    def current(self) -> Server:
        return self._servers[0]

    def advance(self) -> Server:
        """Move the current server to the end and return the next one."""
        self._servers.append(self._servers.pop(0))
        return self._servers[0]

    def discover(self, addresses: Iterable[str], via: Server) -> None:
        """Add servers of the cluster that `via` named. A certificate with the name of `via` is accepted for them."""
        known = {(server.host, server.port) for server in self._servers}
        tls_name = "" if _is_address(via.host) else via.tls_name
        for address in addresses:
            try:
                server = Server.parse(f"nats://{address}", tls_name)
            except ValueError:
                continue
            if server.host and (server.host, server.port) not in known and len(self._servers) < MAX_SERVERS:
                known.add((server.host, server.port))
                self._servers.append(server)

    async def connect(self, connect: Callable[[Server], Awaitable[C]], url: str) -> C:
        """Return the connection to the first server that accepts. Each server is tried once.

        A server that refuses a client closes the connection, and the reset can overtake its -ERR message. Such a
        server is tried again.
        """
        error: BaseException | None = None
        for attempt in range(len(self._servers)):
            server = self.advance() if attempt else self.current
            for _ in range(1 + RESET_RETRIES):
                try:
                    return await connect(server)
                except CONNECT_ERRORS as failure:
                    error = failure
                if not isinstance(error, ConnectionResetError | BrokenPipeError):
                    break
            if is_credentials_error(error):
                break
        raise connection_error(error, url)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def connection_error(error: BaseException | None, servers: str) -> ThinwireError:
    """Translate the reason of a failed connection. Texts of libraries are included only if they hold no secrets."""
    if isinstance(error, ThinwireError):
        return error
    if isinstance(error, TlsUnavailable):
        return BrokerRefused("it offers no TLS: check the port, or connect with nats://", servers=servers)
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerRefused(f"its certificate is not trusted: {error.verify_message}", servers=servers)
    if isinstance(error, ssl.SSLError):
        return BrokerRefused(f"TLS failed: {error.reason}", servers=servers)
    if is_credentials_error(error):
        return BrokerRefused("the credentials are missing or wrong", servers=servers)
    if isinstance(error, ConnectionRefusedError):
        return BrokerUnavailable("connection refused", servers=servers)
    if isinstance(error, TimeoutError):
        return BrokerUnavailable("no answer in time", servers=servers)
    if isinstance(error, OSError):
        return BrokerUnavailable(error.strerror or type(error).__name__, servers=servers)
    if isinstance(error, ProtocolError):
        return BrokerUnavailable("it is not a NATS server", servers=servers)
    if isinstance(error, ServerError) and "maximum" in str(error):
        return BrokerRefused(str(error), servers=servers)
    return BrokerUnavailable(servers=servers)


def is_credentials_error(error: BaseException | None) -> bool:
    """Return whether the server rejected the credentials."""
    text = str(error) if isinstance(error, ServerError) else ""
    return any(word in text for word in _CREDENTIALS_WORDS) and "permissions" not in text


def find_denied_permission(error: ServerError) -> tuple[str, str] | None:
    """Return the denied action and its subject in lower case; None for another error."""
    found = _PERMISSION_ERROR.search(str(error))
    return (found[1], found[2]) if found is not None else None
