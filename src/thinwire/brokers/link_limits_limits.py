"""What a link lets through, described as data: bandwidth, delay and jitter, each direction for itself.

    up=56kbit,delay=150ms,jitter=20ms

is how people write it. `up` and `down` are the bandwidths of the two directions and `bandwidth` is that of both;
`delay`, `jitter` and `burst` hold for both directions, `up.delay` or `down.jitter` for one of them and win there.

>>> modem = read_limits("bandwidth=56kbit,delay=150ms,down.jitter=20ms")
>>> modem.up
Limit(bandwidth=7000.0, delay=0.15, jitter=0.0, burst=0)
>>> str(modem)
'bandwidth=56kbit,delay=150ms,down.jitter=20ms'
>>> read_limits("").free, modem.free
(True, False)
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from thinwire.brokers.link_limits_units import UNITS, number, written
from thinwire.errors import ConfigError

MAX_BANDWIDTH = 1e12
MAX_SECONDS = 3600.0
MAX_BURST = 1 << 30
MAX_TEXT = 400
_WAYS = ("up", "down")


@dataclass(frozen=True)
class Limit:
    """What one direction lets through.

    bandwidth: bytes a second; None for as many as come
    delay: seconds that everything travels, beyond the time that its bytes take to pass
    jitter: seconds by which a packet is faster or slower than that, at most; what was sent first still comes first
    burst: bytes that pass at once after a pause: the depth of the token bucket
    """

    bandwidth: float | None = None
    delay: float = 0.0
    jitter: float = 0.0
    burst: int = 0

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not 1 <= self.bandwidth <= MAX_BANDWIDTH:
            raise ConfigError(f"1 to {MAX_BANDWIDTH:g} bytes a second", bandwidth=self.bandwidth)
        for name in ("delay", "jitter"):
            if not 0 <= getattr(self, name) <= MAX_SECONDS:
                raise ConfigError(f"0 to {MAX_SECONDS:g} seconds", **{name: getattr(self, name)})
        if self.jitter > self.delay:
            raise ConfigError("at most the delay: nothing arrives before it is sent", jitter=self.jitter)
        if not 0 <= self.burst <= MAX_BURST:
            raise ConfigError(f"0 to {MAX_BURST} bytes", burst=self.burst)
        if self.burst and self.bandwidth is None:
            raise ConfigError("a burst exceeds a bandwidth: give one", burst=self.burst)

    @property
    def free(self) -> bool:
        """Does everything pass at once?"""
        return self == Limit()


@dataclass(frozen=True)
class Limits:
    """Both directions of a link: `up` leads to the broker, `down` away from it."""

    up: Limit = Limit()
    down: Limit = Limit()

    @classmethod
    def both(cls, limit: Limit) -> Limits:
        """The same in both directions."""
        return cls(limit, limit)

    @property
    def free(self) -> bool:
        """Does everything pass at once?"""
        return self.up.free and self.down.free

    def __str__(self) -> str:
        """As `read_limits` reads it; what both directions share is named once."""
        parts = []
        for name in (field.name for field in fields(Limit)):
            up, down = (written(name, getattr(limit, name)) for limit in (self.up, self.down))
            if up == down:
                parts += [f"{name}={up}"] if up else []
            else:
                parts += [f"{way}.{name}={text}" for way, text in (("up", up), ("down", down)) if text]
        return ",".join(parts)


FREE = Limits()
"""a link that limits nothing"""


def read_limits(text: str) -> Limits:
    """The limits that a text stands for; `ConfigError` names the field that cannot be."""
    if len(text) > MAX_TEXT:
        raise ConfigError("limits are one line of text", characters=len(text), limit=MAX_TEXT)
    found: dict[str, dict[str, float]] = {"": {}, "up": {}, "down": {}}
    for part in filter(None, (part.strip() for part in text.split(","))):
        field, way, name = _field(part)
        if name in found[way]:
            raise ConfigError("said twice", limit=field)
        found[way][name] = number(name, part.partition("=")[2].strip(), field)
    return Limits(_limit("up", found[""] | found["up"]), _limit("down", found[""] | found["down"]))


def _field(part: str) -> tuple[str, str, str]:
    """The field as it was written, the direction it speaks of ("" for both), and the name it has in a `Limit`."""
    field = part.partition("=")[0].strip()
    way, dot, name = field.rpartition(".")
    if not dot and field in _WAYS:
        way, name = field, "bandwidth"
    if name not in UNITS or way not in ("", *_WAYS) or (dot and not way) or "=" not in part:
        known = [*_WAYS, *UNITS, *(f"{way}.{name}" for way in _WAYS for name in UNITS)]
        raise ConfigError("a limit is written field=value", limit=part, choose_from=known)
    return field, way, name


def _limit(way: str, found: dict[str, Any]) -> Limit:
    if "burst" in found:
        found["burst"] = round(found["burst"])
    try:
        return Limit(**found)
    except ConfigError as error:
        raise ConfigError(error.detail, **{f"{way}.{name}": value for name, value in error.facts.items()}) from None
