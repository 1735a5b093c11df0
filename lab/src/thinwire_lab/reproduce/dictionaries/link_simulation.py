"""What is run: so many publishers and subscribers, each behind a line of its own, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """One course: every publisher sends its share of the messages, every subscriber waits until it has all of them.

    limits: of each client's line, as `read_limits` reads them
    messages: of all publishers together
    window: messages that a publisher sends before the first is acknowledged; 1 is how the thesis did it
    ahead: messages that the broker sends a subscriber before the first is acknowledged
    pace: seconds from one message of a publisher to the next; 0 for as soon as it may
    """

    publishers: int
    subscribers: int
    limits: str
    messages: int
    window: int = 1
    ahead: int = 256
    pace: float = 0.0

    def dealt(self, items: Sequence[T]) -> list[list[T]]:
        """The messages of each publisher, from a stream that begins again where it is too short.

        >>> Cell(2, 1, "", messages=5).dealt("abc")
        [['a', 'c', 'b'], ['b', 'a']]
        """
        every = list(islice(cycle(items), self.messages))
        return [every[place :: self.publishers] for place in range(self.publishers)]


@dataclass(frozen=True)
class Outcome:
    """Seconds.

    publishing: until a publisher has all its messages acknowledged; receiving: until a subscriber has all messages;
    both from the common start, the mean of all
    answered, delivered: half of the messages, and 99 in 100, were acknowledged, or unpacked by a subscriber, so many
    seconds after they were due
    """

    publishing: float
    receiving: float
    answered: tuple[float, float]
    delivered: tuple[float, float]

    @classmethod
    def of(
        cls,
        published: Sequence[float],
        received: Sequence[float],
        answers: Sequence[float],
        deliveries: Sequence[float],
    ) -> Outcome:
        """From when each publisher and each subscriber was done, and the latencies of all messages."""
        return cls(float(np.mean(published)), float(np.mean(received)), _two(answers), _two(deliveries))

    def figures(self) -> dict[str, float]:
        """By name, for a table."""
        return {
            "publishing": self.publishing,
            "receiving": self.receiving,
            "answered_p50": self.answered[0],
            "answered_p99": self.answered[1],
            "delivered_p50": self.delivered[0],
            "delivered_p99": self.delivered[1],
        }


def _two(latencies: Sequence[float]) -> tuple[float, float]:
    half, most = np.percentile(latencies, (50, 99))
    return float(half), float(most)


NAMED = {
    "GPRS": Cell(1, 1, "up=56kbit,down=112kbit,delay=150ms,jitter=20ms", messages=12),
    "EDGE, 8 publishers": Cell(8, 1, "bandwidth=128kbit,delay=50ms", messages=120),
    "satellite, 16 on their way": Cell(1, 2, "up=128kbit,down=2mbit,delay=250ms,jitter=10ms", messages=96, window=16),
    "LTE, 3 publishers, 3 subscribers": Cell(3, 3, "bandwidth=16mbit,delay=25ms,jitter=5ms", messages=120),
}
"""The cells that are run live as well, each with every method: one of them is held up by the way to the broker, one by
the way from it, one by the distance, and one by nothing that fewer bytes would help with."""
