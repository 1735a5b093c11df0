"""The whole grid in virtual time: cells whose parameters and figures are JSON's own, so that Spark can deal them out.

>>> loads = {"plain": [3078, 0, 0], "dictionary": [478, 615e-6, 97e-6]}
>>> row, = grid([{"publishers": 13, "subscribers": 1, "limits": "bandwidth=1mbit,delay=50ms", "loads": loads}])
>>> round(row["receiving_dictionary"], 1), round(row["publishing_dictionary"], 1)
(3.1, 1.2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thinwire_lab.reproduce.dictionaries.link_parties import TWEETS, Load
from thinwire_lab.reproduce.dictionaries.link_simulation import Cell, Outcome
from thinwire_lab.reproduce.dictionaries.link_simulation_virtual import simulate

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


def times_faster(plain: Outcome, packed: Outcome) -> dict[str, float]:
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
