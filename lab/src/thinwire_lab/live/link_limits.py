"""Limits of a link: bandwidth, delay and jitter per direction, parsed from text and applied by a traffic shaper.

    up=56kbit,delay=150ms,jitter=20ms

`up` and `down` are the bandwidths of the two directions and `bandwidth` is that of both. `delay`, `jitter` and `burst`
apply to both directions; `up.delay` or `down.jitter` applies to one of them and has precedence.

>>> modem = read_limits("bandwidth=56kbit,delay=150ms,down.jitter=20ms")
>>> modem.up
Limit(bandwidth=7000.0, delay=0.15, jitter=0.0, burst=0)
>>> modem.down
Limit(bandwidth=7000.0, delay=0.15, jitter=0.02, burst=0)

`TrafficShaper` computes when bytes that are sent now arrive. It has no clock: a proxy calls it with the time of the
event loop, a simulation with a number, and both get the same times. Bytes pass a token bucket and are then delayed; the
jitter changes the delay of each packet. The order is preserved.

>>> shaper = TrafficShaper(Limit(bandwidth=1000, delay=0.05))
>>> [round(shaper.send(100, now=0.0), 6) for _ in range(3)]
[0.15, 0.25, 0.35]
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinwire.errors import ConfigError

_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_BITS = {"bit": 0.125, "kbit": 125.0, "mbit": 125e3, "gbit": 125e6}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
UNITS = {"bandwidth": _BITS | _BYTES, "delay": _TIMES, "jitter": _TIMES, "burst": _BYTES}
_EXAMPLES = {"bandwidth": "56kbit or 7kB", "delay": "150ms", "jitter": "20ms", "burst": "16kB"}
_NUMBER = re.compile(r"(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})\s*([A-Za-z]{1,5})(/s)?", re.ASCII)


def parse_quantity(name: str, text: str, field: str = "") -> float:
    """Return bytes, bytes per second or seconds. The case of bit units is ignored. `field` is used in errors.

    >>> parse_quantity("bandwidth", "56kbit"), parse_quantity("delay", "150 ms"), parse_quantity("burst", "16kB")
    (7000.0, 0.15, 16000.0)
    """
    match = _NUMBER.fullmatch(text)
    unit = match[2] if match else ""
    unit = unit.lower() if unit.lower() in _BITS else unit
    if match is None or unit not in UNITS[name] or (match[3] and name != "bandwidth"):
        raise ConfigError(f"write it like {_EXAMPLES[name]}", **{field or name: text}, units=list(UNITS[name]))
    return float(match[1]) * UNITS[name][unit]


MAX_BANDWIDTH = 1e12
MAX_SECONDS = 3600.0
MAX_BURST = 1 << 30
MAX_TEXT = 400
_DIRECTIONS = ("up", "down")


@dataclass(frozen=True)
class Limit:
    """Limits of one direction.

    bandwidth: bytes per second; None for no limit
    delay: seconds in addition to the transmission time
    jitter: seconds by which a packet is faster or slower at most; the order is preserved
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
            raise ConfigError("at most the delay", jitter=self.jitter)
        if not 0 <= self.burst <= MAX_BURST:
            raise ConfigError(f"0 to {MAX_BURST} bytes", burst=self.burst)
        if self.burst and self.bandwidth is None:
            raise ConfigError("a burst needs a bandwidth", burst=self.burst)

    @property
    def is_free(self) -> bool:
        """Whether nothing is limited."""
        return self == Limit()


@dataclass(frozen=True)
class Limits:
    """Limits of both directions of a link: `up` to the broker, `down` from it."""

    up: Limit = Limit()
    down: Limit = Limit()

    @classmethod
    def both(cls, limit: Limit) -> Limits:
        """Return the same limits for both directions."""
        return cls(limit, limit)


FREE = Limits()
"""no limits"""


def read_limits(text: str) -> Limits:
    """Parse limits. `ConfigError` names the invalid field."""
    if len(text) > MAX_TEXT:
        raise ConfigError("limits are one line of text", characters=len(text), limit=MAX_TEXT)
    found: dict[str, dict[str, float]] = {"": {}, "up": {}, "down": {}}
    for part in filter(None, (part.strip() for part in text.split(","))):
        field, direction, name = _field(part)
        if name in found[direction]:
            raise ConfigError("given twice", limit=field)
        found[direction][name] = parse_quantity(name, part.partition("=")[2].strip(), field)
    return Limits(_limit("up", found[""] | found["up"]), _limit("down", found[""] | found["down"]))


def _field(part: str) -> tuple[str, str, str]:
    """Return the field as written, its direction ("" for both), and its name in `Limit`."""
    field = part.partition("=")[0].strip()
    direction, dot, name = field.rpartition(".")
    if not dot and field in _DIRECTIONS:
        direction, name = field, "bandwidth"
    if name not in UNITS or direction not in ("", *_DIRECTIONS) or (dot and not direction) or "=" not in part:
        known = [*_DIRECTIONS, *UNITS, *(f"{one}.{name}" for one in _DIRECTIONS for name in UNITS)]
        raise ConfigError("a limit is written field=value", limit=part, choose_from=known)
    return field, direction, name


def _limit(direction: str, found: dict[str, Any]) -> Limit:
    if "burst" in found:
        found["burst"] = round(found["burst"])
    try:
        return Limit(**found)
    except ConfigError as error:
        raise ConfigError(
            error.detail, **{f"{direction}.{name}": value for name, value in error.facts.items()}
        ) from None


TICK = 0.005
"""seconds of the bandwidth that form one packet"""
MIN_PACKET, MAX_PACKET = 64, 16_384
"""bytes"""
_DRAWS = 256


class TrafficShaper:
    """One direction of a limited link: computes arrival times.

    generator: source of the jitter, required only with jitter; packet_size: bytes of a packet
    """

    def __init__(self, limit: Limit, generator: np.random.Generator | None = None) -> None:
        if limit.jitter and generator is None:
            raise ValueError("a shaper with jitter needs a seeded generator")
        self.limit = limit
        self.generator = generator
        rate = limit.bandwidth
        self.packet_size = MAX_PACKET if rate is None else min(MAX_PACKET, max(MIN_PACKET, int(rate * TICK)))
        self._seconds_per_byte = 0.0 if rate is None else 1 / rate
        self._credit = limit.burst * self._seconds_per_byte
        self._busy_until = self._newest = -math.inf
        self._draws: list[float] = []

    def send(self, size: int, now: float) -> float:
        """Return when the last of `size` bytes arrives if they are sent now, after all earlier ones."""
        if self.limit.jitter:
            while size > self.packet_size:
                self._send_packet(self.packet_size, now)
                size -= self.packet_size
        return self._send_packet(size, now)

    def clear(self) -> None:
        """Discard the bytes in transit."""
        self._busy_until = self._newest = -math.inf

    def _send_packet(self, size: int, now: float) -> float:
        self._busy_until = max(now, self._busy_until) + size * self._seconds_per_byte
        due = max(now, self._busy_until - self._credit) + self.limit.delay
        if self.limit.jitter:
            due += self._draw_jitter()
        self._newest = max(self._newest, due)
        return self._newest

    def _draw_jitter(self) -> float:
        if not self._draws:
            assert self.generator is not None
            self._draws = self.generator.uniform(-self.limit.jitter, self.limit.jitter, _DRAWS).tolist()
        return self._draws.pop()


def shapers(limits: Limits, seed: int) -> tuple[TrafficShaper, TrafficShaper]:
    """Return the shapers of both directions, with independent generators."""
    up, down = np.random.default_rng(seed).spawn(2)
    return TrafficShaper(limits.up, up), TrafficShaper(limits.down, down)
