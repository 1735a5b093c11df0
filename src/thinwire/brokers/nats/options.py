"""How to reach a NATS server: addresses and credentials, parsed once; secrets are never shown.

>>> servers, options = read_servers("nats://ada:enchantress@broker:4222", NatsOptions(name="p1"))
>>> servers, options.password
(['nats://broker:4222'], 'enchantress')
>>> options
NatsOptions(name='p1', user='ada', password='***')
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from thinwire.errors import BadUrl, ConfigError

DEFAULT_PORT = 4222
SECRETS = frozenset({"token", "password"})


@dataclass(frozen=True)
class Tls:
    """How to know the server, and to be known by it; all files are PEM.

    ca: who may have signed the server's certificate (by default: whom this machine trusts)
    certificate, key: what this client shows, where the server asks for it
    hostname: the name in the server's certificate, where it is not the one in the address
    """

    ca: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    hostname: str | None = None

    def context(self) -> ssl.SSLContext:
        """What the handshake needs."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"a TLS file cannot be read: {error}", ca=self.ca, certificate=self.certificate) from None
        return context


@dataclass(frozen=True, repr=False)
class NatsOptions:
    """Everything about a connection but its address.

    name: what the server calls this client in its own reports
    token; user and password; credentials, nkey (files): how to be known, by the first of them that is given
    connect_timeout: seconds for the first connection; timeout: seconds that a call waits for a connection that is cut
    inbox: the first word of the subjects that answers come to, where permissions ask for another one
    """

    name: str | None = None
    tls: Tls | None = None
    token: str | None = None
    user: str | None = None
    password: str | None = None
    credentials: str | Path | None = None
    nkey: str | Path | None = None
    connect_timeout: float = 5.0
    timeout: float = 60.0
    inbox: str = "_INBOX"

    def __post_init__(self) -> None:
        for what in ("connect_timeout", "timeout"):
            if getattr(self, what) <= 0:
                raise ConfigError("seconds, more than 0", **{what: getattr(self, what)})
        if (self.user is None) != (self.password is None):
            raise ConfigError("user and password go together", user=self.user)
        for what in ("credentials", "nkey"):
            path = getattr(self, what)
            if path is not None and not Path(path).is_file():
                raise ConfigError("no such file", **{what: str(path)})
        if self.credentials is not None:
            _check_credentials(Path(self.credentials))

    def __repr__(self) -> str:
        shown = []
        for item in fields(self):
            value = getattr(self, item.name)
            if value != item.default:
                shown.append(f"{item.name}={'***' if item.name in SECRETS else value!r}")
        return f"NatsOptions({', '.join(shown)})"


def _check_credentials(path: Path) -> None:
    """nats-py would look for the parts for ever."""
    text = path.read_bytes()
    for part in (b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED"):
        if part not in text:
            raise ConfigError(f"the file has no part {part.decode()!r}", credentials=str(path))


def read_servers(servers: str | Sequence[str], options: NatsOptions) -> tuple[list[str], NatsOptions]:
    """The addresses without credentials, and the options with those that stood in an address."""
    given = servers.split(",") if isinstance(servers, str) else list(servers)
    if not given:
        raise BadUrl("no server is named")
    parts = [_parts(server.strip()) for server in given]
    for part in parts:
        options = _with_credentials(part, options)
    if options.tls is None and any(part.scheme == "tls" for part in parts):
        options = replace(options, tls=Tls())
    return [f"{part.scheme}://{_host(part)}:{part.port or DEFAULT_PORT}" for part in parts], options


def _parts(server: str) -> SplitResult:
    try:
        parts = urlsplit(server)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise BadUrl("the host or the port cannot be read", url=_masked(server)) from None
    if parts.scheme not in ("nats", "tls"):
        raise BadUrl("a NATS address begins with nats:// or tls://", url=_masked(server))
    if not host or port == 0 or parts.path.strip("/") or parts.query or parts.fragment:
        raise BadUrl("a NATS address is a host and a port, nothing else", url=_masked(server))
    return parts


def _with_credentials(parts: SplitResult, options: NatsOptions) -> NatsOptions:
    """Credentials that were given beside the address win."""
    if not parts.username or options.user is not None or options.token is not None:
        return options
    if parts.password is None:
        return replace(options, token=unquote(parts.username))
    return replace(options, user=unquote(parts.username), password=unquote(parts.password))


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host


def _masked(server: str) -> str:
    """What may be shown of an address that could not be read: not what stands before the last @."""
    return f"***@{server.rsplit('@', 1)[1]}" if "@" in server else server
