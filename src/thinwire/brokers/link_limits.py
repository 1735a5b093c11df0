"""One direction of a limited link: it says when bytes that are sent now arrive.

A lane knows no clock and moves nothing: a proxy asks it with the time of its event loop, a simulation with a number.
That is why both give the same times.

Bytes pass one after the other, through a token bucket (as a virtual scheduler: only the instant is kept up to which the
lane is taken), then travel for the delay, each packet a little shorter or longer by the jitter, and never overtake.

>>> lane = Lane(Limit(bandwidth=1000, delay=0.05))
>>> [round(lane.send(100, now=0.0), 6) for _ in range(3)]
[0.15, 0.25, 0.35]
"""

from __future__ import annotations

import math

import numpy as np

from thinwire.brokers.link_limits_limits import Limit, Limits

TICK = 0.005
"""seconds of the bandwidth that travel as one packet: a slow link is not watched more closely than this"""
SMALLEST, LARGEST = 64, 16_384
"""bytes of a packet"""
_DRAWS = 256


class Lane:
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


def lanes(limits: Limits, seed: int) -> tuple[Lane, Lane]:
    """The lanes up and down of a link, each with chances of its own."""
    up, down = np.random.default_rng(seed).spawn(2)
    return Lane(limits.up, up), Lane(limits.down, down)
