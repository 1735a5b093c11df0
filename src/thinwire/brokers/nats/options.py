"""Options of a NATS connection: addresses, credentials, TLS. Secrets are masked in `repr` and errors.

>>> servers, options = read_servers("nats://ada:enchantress@broker:4222", NatsOptions(name="p1"))
>>> servers, options.password
(['nats://broker:4222'], 'enchantress')
>>> options
NatsOptions(name='p1', user='ada', password='***')
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from thinwire.brokers.broker_url import without_credentials
from thinwire.errors import BadUrl, ConfigError

DEFAULT_PORT = 4222
SECRETS = frozenset({"token", "password"})


@dataclass(frozen=True)
class Tls:
    """TLS settings. All files are in PEM format.

    ca: certificate authority of the server (default: those that the system trusts)
    certificate, key: certificate of this client, if the server requires one
    hostname: name in the server's certificate, if it differs from the address
    """

    ca: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    hostname: str | None = None

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"a TLS file cannot be read: {error}", ca=self.ca, certificate=self.certificate) from None
        return context


@dataclass(frozen=True, repr=False)
class NatsOptions:
    """Connection options.

    name: shown in the monitoring of the server
    token, user with password, credentials (file), nkey (file): if several are given, the first in this order is used
    connect_timeout: seconds for the first connection; timeout: seconds that a call waits for the reconnection after the
        connection is lost
    inbox: first token of reply subjects, if permissions require another one
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
        for name in ("connect_timeout", "timeout"):
            if getattr(self, name) <= 0:
                raise ConfigError("must be a number of seconds above 0", **{name: getattr(self, name)})
        if (self.user is None) != (self.password is None):
            raise ConfigError("user and password go together", user=self.user)
        for name in ("credentials", "nkey"):
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise ConfigError("no such file", **{name: str(path)})
        if self.credentials is not None:
            _check_credentials(Path(self.credentials))

    def __repr__(self) -> str:
        texts = []
        for item in fields(self):
            value = getattr(self, item.name)
            if value != item.default:
                texts.append(f"{item.name}={'***' if item.name in SECRETS else value!r}")
        return f"NatsOptions({', '.join(texts)})"


def _check_credentials(path: Path) -> None:
    text = path.read_bytes()
    for section in (b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED"):
        if section not in text:
            raise ConfigError(f"the file has no section {section.decode()!r}", credentials=str(path))


def read_options(values: Mapping[str, Any]) -> NatsOptions:
    """Return options from the fields of `NatsOptions` and `Tls` by name. Seconds may be text.

    >>> read_options({"timeout": "10", "ca": "ca.pem"})
    NatsOptions(tls=Tls(ca='ca.pem', certificate=None, key=None, hostname=None), timeout=10.0)
    """
    names, tls_names = ({item.name for item in fields(kind)} for kind in (NatsOptions, Tls))
    unknown = sorted(values.keys() - names - tls_names)
    if unknown:
        raise ConfigError(
            "no such connection option", option=unknown, choose_from=sorted((names | tls_names) - {"tls"})
        )
    options = {name: value for name, value in values.items() if name in names}
    for name in options.keys() & {"connect_timeout", "timeout"}:
        options[name] = _seconds(name, options[name])
    tls = {name: value for name, value in values.items() if name in tls_names}
    if tls:
        options["tls"] = Tls(**tls)
    return NatsOptions(**options)


def _seconds(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError("must be a number of seconds above 0", **{name: value}) from None


def read_servers(servers: str | Sequence[str], options: NatsOptions) -> tuple[list[str], NatsOptions]:
    """Return the addresses without credentials, and the options with the credentials of the addresses."""
    urls = servers.split(",") if isinstance(servers, str) else list(servers)
    if not urls:
        raise BadUrl("no server given")
    parts = [_parts(server.strip()) for server in urls]
    for part in parts:
        options = _with_credentials(part, options)
    if options.tls is None and any(part.scheme == "tls" for part in parts):
        options = replace(options, tls=Tls())
    return [f"{part.scheme}://{_address(part)}" for part in parts], options


def _parts(server: str) -> SplitResult:
    try:
        parts = urlsplit(server)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise BadUrl("invalid host or port", url=without_credentials(server)) from None
    if parts.scheme not in ("nats", "tls"):
        raise BadUrl("a NATS address begins with nats:// or tls://", url=without_credentials(server))
    if not host or port == 0 or parts.path.strip("/") or parts.query or parts.fragment:
        raise BadUrl("a NATS address is a host and a port, nothing else", url=without_credentials(server))
    return parts


def _with_credentials(parts: SplitResult, options: NatsOptions) -> NatsOptions:
    """Add the credentials of an address. Explicit options have precedence."""
    if not parts.username or options.user is not None or options.token is not None:
        return options
    if parts.password is None:
        return replace(options, token=unquote(parts.username))
    return replace(options, user=unquote(parts.username), password=unquote(parts.password))


def _address(parts: SplitResult) -> str:
    host = without_credentials(parts.netloc).removesuffix(":")
    return host if parts.port else f"{host}:{DEFAULT_PORT}"
