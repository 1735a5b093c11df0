"""Simulation of publishers and subscribers on limited links.

A cell has publishers and subscribers, each with its own link.

>>> cell = Cell(publishers=1, subscribers=1, limits="bandwidth=1mbit,delay=50ms", messages=100)
>>> from thinwire_lab.reproduce.dictionaries.link_parties import TWEETS
>>> plain, packed = (simulate(cell, TWEETS[method]) for method in ("plain", "dictionary"))
>>> round(plain.receiving / packed.receiving, 2)
1.19

A grid of cells has JSON values as parameters and results, so that it runs on Spark.

>>> loads = {"plain": [3078, 0, 0], "dictionary": [478, 615e-6, 97e-6]}
>>> row, = grid([{"publishers": 13, "subscribers": 1, "limits": "bandwidth=1mbit,delay=50ms", "loads": loads}])
>>> round(row["receiving_dictionary"], 1), round(row["publishing_dictionary"], 1)
(3.1, 1.2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, TypeVar

import numpy as np

from thinwire.brokers.protocol_overhead import JetStream
from thinwire_lab.live.link_limits import read_limits
from thinwire_lab.overlay_sim.discrete_events import EventScheduler
from thinwire_lab.reproduce.dictionaries.link_parties import (
    TWEETS,
    LinkReceiver,
    LinkSender,
    Load,
    MessageOverhead,
    Relay,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """Parameters of one run: every publisher sends its share of the messages, every subscriber receives all of them.

    limits: of each client's link, in the syntax of `read_limits`
    messages: of all publishers together
    window: maximum number of unacknowledged messages of a publisher; 1 in the thesis
    ahead: maximum number of unacknowledged messages of a subscriber
    pace: seconds between messages of a publisher; 0 for no limit
    """

    publishers: int
    subscribers: int
    limits: str
    messages: int
    window: int = 1
    ahead: int = 256
    pace: float = 0.0

    def split(self, items: Sequence[T]) -> list[list[T]]:
        """Return the messages of each publisher; a short stream is repeated.

        >>> Cell(2, 1, "", messages=5).split("abc")
        [['a', 'c', 'b'], ['b', 'a']]
        """
        messages = list(islice(cycle(items), self.messages))
        return [messages[index :: self.publishers] for index in range(self.publishers)]


@dataclass(frozen=True)
class LinkOutcome:
    """Results of a run in seconds.

    publishing: time until all messages of a publisher are acknowledged, mean over publishers
    receiving: time until a subscriber has all messages, mean over subscribers
    answered: p50 and p99 of the time from the due time of a message to its acknowledgement
    delivered: p50 and p99 of the time from the due time of a message until a subscriber has unpacked it
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
        """Return the outcome, given the end times of publishers and subscribers and the latencies of all messages."""
        return cls(float(np.mean(published)), float(np.mean(received)), _percentiles(answers), _percentiles(deliveries))

    def figures(self) -> dict[str, float]:
        """Return the values by name."""
        return {
            "publishing": self.publishing,
            "receiving": self.receiving,
            "answered_p50": self.answered[0],
            "answered_p99": self.answered[1],
            "delivered_p50": self.delivered[0],
            "delivered_p99": self.delivered[1],
        }


def _percentiles(latencies: Sequence[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(latencies, (50, 99))
    return float(p50), float(p99)


NAMED = {
    "GPRS": Cell(1, 1, "up=56kbit,down=112kbit,delay=150ms,jitter=20ms", messages=12),
    "EDGE, 8 publishers": Cell(8, 1, "bandwidth=128kbit,delay=50ms", messages=120),
    "satellite, window of 16": Cell(1, 2, "up=128kbit,down=2mbit,delay=250ms,jitter=10ms", messages=96, window=16),
    "LTE, 3 publishers, 3 subscribers": Cell(3, 3, "bandwidth=16mbit,delay=25ms,jitter=5ms", messages=120),
}
"""cells that are also run live with every method: limited by the link to the broker, by the link from the broker, by
the delay, and by nothing that depends on bytes"""


LOG = "limited"
_NAME = "abcde"
_BROKER = JetStream(stream=LOG, consumer=_NAME, sequence=1000, inbox="_INBOX.abcdefgh.100")
_RECEIVER_SEEDS = 1000
"""seed of the first subscriber; publishers have smaller ones"""


def subject(publisher: int, lane: int) -> str:
    """Return the subject of a publisher's messages; concurrent messages have different subjects."""
    return f"{LOG}.{publisher}.{lane}"


def simulate(cell: Cell, load: Load, *, store: float = 0.0) -> LinkOutcome:
    """Simulate a cell.

    store: seconds of the broker for each message
    """
    scheduler, limits = EventScheduler(), read_limits(cell.limits)
    relay = Relay(scheduler, message_overhead(load, store))
    senders = [
        LinkSender(scheduler, relay, limits, sizes, window=cell.window, pace=cell.pace, seed=place)
        for place, sizes in enumerate(cell.split(load.sizes))
    ]
    receivers = [
        LinkReceiver(scheduler, relay, limits, window=cell.ahead, seed=_RECEIVER_SEEDS + place)
        for place in range(cell.subscribers)
    ]
    for sender in senders:
        sender.begin()
    scheduler.run()
    return LinkOutcome.of(
        [sender.finished for sender in senders],
        [receiver.finished for receiver in receivers],
        [seconds for sender in senders for seconds in sender.latencies],
        [seconds for receiver in receivers for seconds in receiver.latencies],
    )


def message_overhead(load: Load, store: float = 0.0) -> MessageOverhead:
    """Return the overhead of NATS for messages of this load; subscribers acknowledge many messages at once."""
    payload = round(load.mean)
    traffic = _BROKER.traffic(subject(0, 0), payload)
    acknowledgement = len(f"PUB $JS.ACK.{LOG}.{_NAME}.1.1000.1000.0.0 0\r\n\r\n")
    return MessageOverhead(
        publish_bytes=traffic.published - payload,
        store_ack_bytes=traffic.stored,
        deliver_bytes=traffic.delivered - payload,
        receive_ack_bytes=acknowledgement,
        pack_seconds=load.pack,
        unpack_seconds=load.unpack,
        store_seconds=store,
    )


PARTIES = (1, 2, 3, 5, 8, 13, 21, 34, 55)
RATES = ("64kbit", "128kbit", "256kbit", "512kbit", "1mbit", "2mbit", "4mbit", "8mbit", "16mbit", "32mbit")
"""equation 5.5.2 of the thesis"""
DELAYS = ("1ms", "10ms", "50ms", "150ms", "300ms")
JITTERS = (0.0, 0.2, 0.5)
"""as a share of the delay"""

MethodLoads = Mapping[str, Sequence[float]]
"""bytes of a message and seconds to pack and unpack it, by method; one method is "plain" """


def compare(loads: MethodLoads, messages: int = 1000, **cell: Any) -> dict[str, float]:
    """Compare all methods under the same limits. `cell`: other fields of `Cell`.

    `plain.receiving` and similar names are seconds. `receiving_dictionary` is the speed-up over plain messages until a
    subscriber has all messages, `publishing_...` that of a publisher, `delivered_...` that of the median message.
    """
    common = Cell(messages=messages, **cell)
    found = {
        method: simulate(common, Load((round(size),), pack, unpack)) for method, (size, pack, unpack) in loads.items()
    }
    seconds = {f"{method}.{name}": value for method, one in found.items() for name, value in one.figures().items()}
    return seconds | {
        f"{name}_{method}": ratio
        for method, one in found.items()
        if method != "plain"
        for name, ratio in times_faster(found["plain"], one).items()
    }


def times_faster(plain: LinkOutcome, packed: LinkOutcome) -> dict[str, float]:
    """Return the speed-ups by name."""
    return {
        "publishing": plain.publishing / packed.publishing,
        "receiving": plain.receiving / packed.receiving,
        "delivered": plain.delivered[0] / packed.delivered[0],
    }


def grid(cells: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each cell: its parameters and the results of `compare`."""
    return [{**cell, **compare(**cell)} for cell in cells]


TWEET_LOADS = {method: [load.mean, load.pack, load.unpack] for method, load in TWEETS.items()}
"""the tweets of the thesis as a parameter of cells"""


def thesis_cells(
    rates: Sequence[str] = RATES, parties: Sequence[int] = PARTIES, messages: int = 1000
) -> list[dict[str, Any]]:
    """Return cells for publishers, subscribers and bandwidths with 50 ms one-way delay (figures 5.5.3, 5.5.4, appendix
    C).

    The thesis sends 20,000 messages; ratios are the same with fewer, because all messages behave alike.

    >>> len(thesis_cells())
    810
    """
    return [
        {"publishers": p, "subscribers": s, "limits": f"bandwidth={rate},delay=50ms", "loads": TWEET_LOADS,
         "messages": messages}
        for rate in rates
        for p in parties
        for s in parties
    ]  # fmt: skip


def delay_cells(
    rates: Sequence[str] = RATES, delays: Sequence[str] = DELAYS, messages: int = 1000
) -> list[dict[str, Any]]:
    """Return cells for bandwidths, delays and jitters, with one publisher and one subscriber.

    >>> len(delay_cells()), delay_cells()[1]["limits"]
    (150, 'bandwidth=64kbit,delay=1ms,jitter=0.2ms')
    """
    return [
        {"publishers": 1, "subscribers": 1, "limits": _limits(rate, delay, share), "loads": TWEET_LOADS,
         "messages": messages}
        for rate in rates
        for delay in delays
        for share in JITTERS
    ]  # fmt: skip


def _limits(rate: str, delay: str, share: float) -> str:
    jitter = f",jitter={share * float(delay.removesuffix('ms')):g}ms" if share else ""
    return f"bandwidth={rate},delay={delay}{jitter}"
