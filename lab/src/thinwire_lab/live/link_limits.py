"""One direction of a limited link: it says when bytes that are sent now arrive.

A lane knows no clock and moves nothing: a proxy asks it with the time of its event loop, a simulation with a number.
That is why both give the same times.

Bytes pass one after the other, through a token bucket (as a virtual scheduler: only the instant is kept up to which the
lane is taken), then travel for the delay, each packet a little shorter or longer by the jitter, and never overtake.

>>> lane = TrafficShaper(Limit(bandwidth=1000, delay=0.05))
>>> [round(lane.send(100, now=0.0), 6) for _ in range(3)]
[0.15, 0.25, 0.35]

Sizes, rates and times as people write them.

>>> number("bandwidth", "56kbit"), number("delay", "150 ms"), number("burst", "16kB")
(7000.0, 0.15, 16000.0)
>>> written("bandwidth", 125_000.0), written("delay", 0.05), written("burst", 0)
('1mbit', '50ms', '')

What a link lets through, described as data: bandwidth, delay and jitter, each direction for itself.

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

import math
import re
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

import numpy as np

from thinwire.errors import ConfigError

_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_BITS = {"bit": 0.125, "kbit": 125.0, "mbit": 125e3, "gbit": 125e6}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
UNITS = {"bandwidth": _BITS | _BYTES, "delay": _TIMES, "jitter": _TIMES, "burst": _BYTES}
_SHOWN = {"bandwidth": _BITS, "delay": _TIMES, "jitter": _TIMES, "burst": _BYTES}
_EXAMPLES = {"bandwidth": "56kbit or 7kB", "delay": "150ms", "jitter": "20ms", "burst": "16kB"}
_NUMBER = re.compile(r"(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})\s*([A-Za-z]{1,5})(/s)?", re.ASCII)


def number(name: str, text: str, field: str = "") -> float:
    """What a text means in bytes, bytes a second or seconds; bits may be written in any case.

    field: what to call it in a complaint
    """
    match = _NUMBER.fullmatch(text)
    unit = match[2] if match else ""
    unit = unit.lower() if unit.lower() in _BITS else unit
    if match is None or unit not in UNITS[name] or (match[3] and name != "bandwidth"):
        raise ConfigError(f"write it like {_EXAMPLES[name]}", **{field or name: text}, units=list(UNITS[name]))
    return float(match[1]) * UNITS[name][unit]


def written(name: str, value: float | None) -> str:
    """Text that reads back as the same number, in the largest unit that keeps it short; nothing for nothing."""
    if not value:
        return ""
    for unit, size in reversed(_SHOWN[name].items()):
        text = f"{value / size:.12g}"
        if value >= size and "e" not in text and float(text) * size == value:
            return f"{text}{unit}"
    # all digits of the float, in the unit that needs no arithmetic
    return f"{Decimal(repr(float(value))):f}{next(unit for unit, size in UNITS[name].items() if size == 1)}"


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


TICK = 0.005
"""seconds of the bandwidth that travel as one packet: a slow link is not watched more closely than this"""
SMALLEST, LARGEST = 64, 16_384
"""bytes of a packet"""
_DRAWS = 256


class TrafficShaper:
    """What has passed so far, and so when the next bytes will.

    chance: where jitter comes from; a lane without jitter needs none

    Attributes: `grain`, the bytes that travel as one packet.
    """

    def __init__(self, limit: Limit, chance: np.random.Generator | None = None) -> None:
        if limit.jitter and chance is None:
            raise ValueError("a lane with jitter needs a seeded generator")
        self.limit = limit
        self.chance = chance
        rate = limit.bandwidth
        self.grain = LARGEST if rate is None else min(LARGEST, max(SMALLEST, int(rate * TICK)))
        self._pace = 0.0 if rate is None else 1 / rate
        self._credit = limit.burst * self._pace
        self._taken = self._newest = -math.inf
        self._draws: list[float] = []

    def send(self, size: int, now: float) -> float:
        """When the last of these bytes arrives, if they are sent now; the next ones come after them."""
        if self.limit.jitter:
            while size > self.grain:
                self._packet(self.grain, now)
                size -= self.grain
        return self._packet(size, now)

    def clear(self) -> None:
        """Forget what is on its way: it was cut off, and the lane is free."""
        self._taken = self._newest = -math.inf

    def _packet(self, size: int, now: float) -> float:
        self._taken = max(now, self._taken) + size * self._pace
        due = max(now, self._taken - self._credit) + self.limit.delay
        if self.limit.jitter:
            due += self._drawn()
        self._newest = max(self._newest, due)
        return self._newest

    def _drawn(self) -> float:
        if not self._draws:
            assert self.chance is not None
            self._draws = self.chance.uniform(-self.limit.jitter, self.limit.jitter, _DRAWS).tolist()
        return self._draws.pop()


def lanes(limits: Limits, seed: int) -> tuple[TrafficShaper, TrafficShaper]:
    """The lanes up and down of a link, each with chances of its own."""
    up, down = np.random.default_rng(seed).spawn(2)
    return TrafficShaper(limits.up, up), TrafficShaper(limits.down, down)
