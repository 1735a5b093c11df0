"""Which broker a URL names, without looking into what only its transport understands.

>>> read_url("memory://test")
Address(scheme='memory', rest='test')
>>> read_url("nats://ada:secret@broker:4222")
Address(scheme='nats', rest='broker:4222')
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thinwire.errors import BadUrl

SCHEMES = ("nats", "tls", "embedded", "memory")


@dataclass(frozen=True)
class Address:
    """A URL: its scheme, what follows without secrets, and the whole, which is not shown."""

    scheme: str
    rest: str
    url: str = field(repr=False, compare=False, default="")

    @property
    def shown(self) -> str:
        """The URL without secrets."""
        return f"{self.scheme}://{self.rest}"


def read_url(url: str) -> Address:
    """The address a URL stands for; several servers of one cluster are joined by commas."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise BadUrl("unknown scheme" if separator else "no scheme", url=_open_part(url))
    return Address(scheme, ",".join(_open_part(server) for server in rest.split(",")), url)


def _open_part(server: str) -> str:
    """A server without what stands before the last @, which may be a secret."""
    return server.rpartition("@")[2]
