"""What is run: so many publishers and subscribers, each behind a line of its own, and what came of it.

A cell in virtual time.

>>> cell = Cell(publishers=1, subscribers=1, limits="bandwidth=1mbit,delay=50ms", messages=100)
>>> from thinwire_lab.reproduce.dictionaries.link_parties import TWEETS
>>> plain, packed = (simulate(cell, TWEETS[method]) for method in ("plain", "dictionary"))
>>> round(plain.receiving / packed.receiving, 2)
1.19

The whole grid in virtual time: cells whose parameters and figures are JSON's own, so that Spark can deal them out.

>>> loads = {"plain": [3078, 0, 0], "dictionary": [478, 615e-6, 97e-6]}
>>> row, = grid([{"publishers": 13, "subscribers": 1, "limits": "bandwidth=1mbit,delay=50ms", "loads": loads}])
>>> round(row["receiving_dictionary"], 1), round(row["publishing_dictionary"], 1)
(3.1, 1.2)

How many times faster with PREDICT, as the thesis measured it on Apache Pulsar (C. Doblander, 2018).

Figures 5.5.3 and 5.5.4 and appendix C: 20,000 tweets, 50 ms one way, publishers by subscribers, as printed there. The
maps for 64, 128 and 512 kbit, and most of those for publishers, cannot be read in the text; gaps in the others are runs
that timed out.

>>> RECEIVING["1mbit"][13, 1], PUBLISHING["4mbit"][55, 21], (8, 13) in RECEIVING["1mbit"]
(2.9, 1.3, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, TypeVar

import numpy as np

from thinwire.brokers.protocol_overhead import JetStream
from thinwire_lab.live.link_limits import read_limits
from thinwire_lab.overlay_sim.discrete_events import Kernel
from thinwire_lab.reproduce.dictionaries.link_parties import TWEETS, LinkReceiver, LinkSender, Load, Relay, Weights

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
class LinkOutcome:
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
    ) -> LinkOutcome:
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


LOG = "limited"
_NAME = "abcde"
_BROKER = JetStream(stream=LOG, consumer=_NAME, sequence=1000, inbox="_INBOX.abcdefgh.100")
_SEEDS = 1000
"""publishers or subscribers that have seeds of their own"""


def subject(publisher: int, lane: int) -> str:
    """Where a publisher's messages go; those that are on their way at once have subjects of their own."""
    return f"{LOG}.{publisher}.{lane}"


def simulate(cell: Cell, load: Load, *, store: float = 0.0, disk: float | None = None, seed: int = 0) -> LinkOutcome:
    """What would come of a cell.

    store: seconds of the broker for each message; disk: bytes a second that it can store; None for as many as come
    """
    world, limits = Kernel(), read_limits(cell.limits)
    relay = Relay(world, weights(load, store, disk))
    first = 2 * _SEEDS * seed
    senders = [
        LinkSender(world, relay, limits, sizes, window=cell.window, pace=cell.pace, seed=first + place)
        for place, sizes in enumerate(cell.dealt(load.sizes))
    ]
    receivers = [
        LinkReceiver(world, relay, limits, window=cell.ahead, seed=first + _SEEDS + place)
        for place in range(cell.subscribers)
    ]
    for sender in senders:
        sender.begin()
    world.run()
    return LinkOutcome.of(
        [sender.finished for sender in senders],
        [receiver.finished for receiver in receivers],
        [seconds for sender in senders for seconds in sender.latencies],
        [seconds for receiver in receivers for seconds in receiver.latencies],
    )


def weights(load: Load, store: float = 0.0, disk: float | None = None) -> Weights:
    """What NATS puts around a message of this load; its subscribers acknowledge many at once, in one short line."""
    payload = round(load.mean)
    traffic = _BROKER.traffic(subject(0, 0), payload)
    acknowledgement = len(f"PUB $JS.ACK.{LOG}.{_NAME}.1.1000.1000.0.0 0\r\n\r\n")
    return Weights(
        published=traffic.published - payload,
        stored=traffic.stored,
        delivered=traffic.delivered - payload,
        acknowledged=acknowledgement,
        pack=load.pack,
        unpack=load.unpack,
        store=store,
        disk=disk,
    )


PARTIES = (1, 2, 3, 5, 8, 13, 21, 34, 55)
RATES = ("64kbit", "128kbit", "256kbit", "512kbit", "1mbit", "2mbit", "4mbit", "8mbit", "16mbit", "32mbit")
"""equation 5.5.2 of the thesis"""
DELAYS = ("1ms", "10ms", "50ms", "150ms", "300ms")
JITTERS = (0.0, 0.2, 0.5)
"""as a share of the delay"""

Weighed = Mapping[str, Sequence[float]]
"""method -> bytes of a message, and the seconds to pack and to unpack it; one of them is "plain" """


def compare(
    publishers: int,
    subscribers: int,
    limits: str,
    loads: Weighed,
    *,
    messages: int = 1000,
    window: int = 1,
    ahead: int = 256,
    pace: float = 0.0,
    store: float = 0.0,
    disk: float | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Every method under the same limits.

    `plain.receiving` and so on are seconds; `receiving_dictionary` is how many times faster than plain a subscriber has
    all messages with a dictionary, `publishing_...` the same of a publisher, `delivered_...` of half of the messages.
    """
    cell = Cell(publishers, subscribers, limits, messages, window, ahead, pace)
    found = {
        method: simulate(cell, Load((round(size),), pack, unpack), store=store, disk=disk, seed=seed)
        for method, (size, pack, unpack) in loads.items()
    }
    seconds = {f"{method}.{name}": value for method, one in found.items() for name, value in one.figures().items()}
    return seconds | {
        f"{name}_{method}": ratio
        for method, one in found.items()
        if method != "plain"
        for name, ratio in times_faster(found["plain"], one).items()
    }


def times_faster(plain: LinkOutcome, packed: LinkOutcome) -> dict[str, float]:
    """How many times faster everything is, by name."""
    return {
        "publishing": plain.publishing / packed.publishing,
        "receiving": plain.receiving / packed.receiving,
        "delivered": plain.delivered[0] / packed.delivered[0],
    }


def grid(cells: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each cell: its parameters, and what `compare` says of it."""
    return [{**cell, **compare(**cell)} for cell in cells]


def thesis_cells(
    loads: Mapping[str, Load] = TWEETS, *, rates: Sequence[str] = RATES, parties: Sequence[int] = PARTIES, **more: Any
) -> list[dict[str, Any]]:
    """Publishers times subscribers times bandwidths, with its 50 ms one way (figures 5.5.3, 5.5.4 and appendix C).

    The thesis sends 20,000 messages; ratios are the same with fewer, since every message takes the same course.

    >>> len(thesis_cells())
    810
    """
    return [
        {"publishers": p, "subscribers": s, "limits": f"bandwidth={rate},delay=50ms", "loads": _plain(loads), **more}
        for rate in rates
        for p in parties
        for s in parties
    ]


def delay_cells(
    loads: Mapping[str, Load] = TWEETS, *, rates: Sequence[str] = RATES, delays: Sequence[str] = DELAYS, **more: Any
) -> list[dict[str, Any]]:
    """Bandwidths times delays times jitters, one publisher and one subscriber.

    >>> len(delay_cells()), delay_cells()[1]["limits"]
    (150, 'bandwidth=64kbit,delay=1ms,jitter=0.2ms')
    """
    return [
        {"publishers": 1, "subscribers": 1, "limits": _limits(rate, delay, share), "loads": _plain(loads), **more}
        for rate in rates
        for delay in delays
        for share in JITTERS
    ]


def _limits(rate: str, delay: str, share: float) -> str:
    jitter = f",jitter={share * float(delay.removesuffix('ms')):g}ms" if share else ""
    return f"bandwidth={rate},delay={delay}{jitter}"


def _plain(loads: Mapping[str, Load]) -> dict[str, list[float]]:
    return {method: [load.mean, load.pack, load.unpack] for method, load in loads.items()}


Map = dict[tuple[int, int], float]
"""(publishers, subscribers) -> times faster"""


def _read(text: str) -> Map:
    """Rows from 55 publishers down to 1, columns from 1 subscriber to 55; a dash where there is no figure."""
    rows = zip(reversed(PARTIES), text.strip().splitlines(), strict=True)
    cells = {(p, s): value for p, row in rows for s, value in zip(PARTIES, row.split(), strict=True)}
    return {parties: float(value) for parties, value in cells.items() if value != "-"}


RECEIVING = {
    "1mbit": _read("""
        1.9 1.6 4 3.6 1.3 2.7 3.3 1.4 1.4
        2.4 2.1 2.9 3.5 3.6 3.4 1.7 2.8 2.7
        2.2 3.3 3.5 2.8 2.6 3.1 3.3 3.4 3.3
        2.9 3.2 2.9 3 3 2.4 2.3 2.9 3.4
        2.1 1.8 2.1 2 1.4 - 2.5 2.4 -
        1.3 1.3 2 1.7 1.3 1.3 2 1.3 -
        1.1 1.1 1 1.1 1.1 1.2 1.2 1.1 1.4
        1.1 1.1 1 1.1 1.1 1.1 1.1 1.2 -
        1.1 1.1 1.1 1.1 1.1 1 1.1 1.1 1.1"""),
    "2mbit": _read("""
        1.5 2 2.1 2.3 2.3 2.5 1.9 1.7 3.2
        3 2.6 2.8 2.3 1.8 2.8 2 - 3.7
        2.3 2.2 2.1 2.2 2.6 2.2 2.3 2.4 3.6
        1.4 1.5 1.5 1.5 1.4 1.7 1.6 1.1 2
        1.1 1.1 1.2 1.6 1.3 1.7 1.2 1.1 -
        1.1 1 1.1 1 1.2 1.1 1.1 1.1 1.3
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1 1.1
        1.1 1.1 1.1 1.1 1.1 1 1 1 1.1
        1.1 1.1 1 1.1 1.1 1.1 1.1 1 1.1"""),
    "4mbit": _read("""
        1.4 1.8 0.99 2.3 2.7 1.8 2.5 1.5 2.5
        1.6 1.8 1.6 3 2 1.8 2.2 2.8 2.6
        1.1 1.2 1.1 1.1 1.4 0.96 1.3 1.2 2
        1.1 1.1 1.1 1.1 1 1.4 1 1 1.2
        1.1 1.2 1.1 1.2 1.4 1.2 1.1 1.1 1.1
        1.1 1.1 1 1.1 1.1 1.1 1.1 0.99 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        0.95 1 1.1 1.1 1 1.1 1 1.1 1.1"""),
    "8mbit": _read("""
        0.99 1.2 1.6 1.8 1.6 1.3 1.8 1.3 1
        0.95 0.94 1.2 1 0.92 1.6 0.94 1.3 1.4
        1 1 1.1 1 1.1 1.2 1.2 1.3 1.2
        1.1 1.1 1.1 1.1 1.1 1 1 1 1.1
        1.2 1.1 0.98 1.1 1.1 1.1 1.1 1.2 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        1.1 1.1 1.1 1.1 1 1.1 1.1 1.1 1.1
        1 1 1.1 1.1 1 1.1 1.1 1.1 1.1
        1.1 1.1 0.99 1 1.1 1.1 1.1 1 1.3"""),
    "16mbit": _read("""
        1.2 0.91 0.85 0.94 0.93 0.92 1.2 1.5 1.6
        1.1 0.96 0.98 1 0.99 1.3 0.91 1.3 1.1
        1.1 1 1.1 1 1.1 0.96 1.1 0.96 1
        1.1 1.2 1.1 1.1 1.2 1.1 1 1.1 1
        1.1 1.2 1.1 1.1 1.2 1.1 1.1 1.1 1.1
        1.1 1.2 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.2
        1 1.1 1.1 1.1 1.1 1.1 1.1 1 1
        1 1.1 1.1 1.1 1.1 1.1 1.1 1 1.1"""),
}

PUBLISHING = {
    "4mbit": _read("""
        0.89 1 0.98 1 0.93 1 1.3 0.98 0.99
        1 1.1 1 0.97 1.1 1 1 0.96 1.1
        1 1.1 1 1 1 1 0.98 1.1 1.1
        1.1 1.1 1.1 1.1 1 1.1 1 1 1.1
        1.1 1.2 1.1 1.2 1.1 1.1 1.2 1.1 1
        1.2 1.1 1 1.1 1.1 1.1 1.1 0.97 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        0.95 1 1.1 1.1 1 1.1 1 1.1 1.1"""),
}
