"""What the server says, in our words."""

from __future__ import annotations

import ssl
from typing import Any

from nats import errors

from thinwire.brokers.nats.client import NoTls
from thinwire.errors import (
    BrokerRefused,
    BrokerUnavailable,
    Conflict,
    PayloadTooLarge,
    ThinwireError,
    UnknownLog,
)

NOT_FOUND = 404
NO_STREAM = 10059
NAME_IN_USE = 10058
_CONFLICT = frozenset({10071, 10164})
_TOO_LARGE = frozenset({10054})
_NO_ROOM = frozenset({10023, 10028, 10047, 10077, 10122})
_NO_JETSTREAM = frozenset({10039, 10076})
_PASSING = frozenset({10008, 10009, 10074, 10118})
"""the server is about to be ready: no leader yet, catching up"""

NO_JETSTREAM = "JetStream is not enabled: start the server as `nats-server -js`, or enable it for this account"
NO_ROOM = "the broker has no room left: free disk space, raise its store limit, or keep less (retention)"
_CREDENTIALS = "the credentials are missing or wrong"
_AUTHORIZATION = ("authorization", "authentication")


class Refused(Exception):
    """An error in an answer of JetStream."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.status = int(error.get("code", 500))
        self.code = int(error.get("err_code", 0))
        self.text = str(error.get("description", "unknown"))
        super().__init__(self.text)

    @property
    def passing(self) -> bool:
        """Would the same question be answered in a moment?"""
        return self.code in _PASSING

    @property
    def conflict(self) -> bool:
        return self.code in _CONFLICT

    def translated(self, **facts: Any) -> ThinwireError:
        """The error of ours."""
        if self.code == NO_STREAM:
            return UnknownLog(**facts)
        if self.conflict:
            return Conflict(self.text, **facts)
        if self.code in _TOO_LARGE:
            return PayloadTooLarge(self.text, **facts)
        if self.code in _NO_ROOM:
            return BrokerRefused(f"{NO_ROOM} ({self.text})", **facts)
        if self.code in _NO_JETSTREAM:
            return BrokerRefused(NO_JETSTREAM, **facts)
        return BrokerRefused(self.text, code=self.code, **facts)


def connection_error(error: BaseException | None, servers: str) -> ThinwireError:
    """Why there is no connection. Texts of other libraries are shown only where they cannot hold a secret."""
    if isinstance(error, NoTls):
        return BrokerRefused("it offers no TLS: check the port, or connect with nats://", servers=servers)
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerRefused(f"its certificate is not trusted: {error.verify_message}", servers=servers)
    if isinstance(error, ssl.SSLError):
        return BrokerRefused(f"TLS failed: {error.reason}", servers=servers)
    if isinstance(error, errors.AuthorizationError) or is_refusal(error):
        return BrokerRefused(_CREDENTIALS, servers=servers)
    if isinstance(error, ConnectionRefusedError):
        return BrokerUnavailable("nobody listens there", servers=servers)
    if isinstance(error, TimeoutError):
        return BrokerUnavailable("no answer in time", servers=servers)
    if isinstance(error, OSError):
        return BrokerUnavailable(error.strerror or type(error).__name__, servers=servers)
    if isinstance(error, errors.Error) and "expecting INFO" in str(error):
        return BrokerUnavailable("something else than a NATS server listens there", servers=servers)
    if isinstance(error, errors.Error) and "maximum" in str(error).lower():
        return BrokerRefused(str(error).removeprefix("nats: "), servers=servers)
    return BrokerUnavailable(servers=servers)


def is_refusal(error: BaseException | None) -> bool:
    """Did the server say that it does not want this client?"""
    text = str(error).lower() if isinstance(error, errors.Error) else ""
    return any(word in text for word in _AUTHORIZATION) and "permissions" not in text
