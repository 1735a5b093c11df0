"""Figure 1, measured: what moves the p90 of a topic. Each part is a list of configurations for the harness.

The published host had four cores and up to 200 subscribers; the figure here is drawn with as many cores as are given,
so it shows the same shapes and not the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from thinwire.errors import ConfigError
from thinwire.placement import Host, Topic
from thinwire.placement.queue_simulator_samples import INTERVALS
from thinwire_lab.live.edge.load_harness_harness import Configuration

SHARES = (0.2, 0.5, 0.7, 0.85)
"""of one core that a topic keeps busy"""
SUBSCRIBERS = (1, 5, 20)
PUBLISHERS = (1, 5, 20)
COMPANY = (0, 2, 4, 8)
BUSY = 0.05


def _subscribers(host: Host) -> list[Configuration]:
    gps = Topic("t", rate=5, interval=INTERVALS[0])
    return [Configuration((gps,), host, subscribers=count) for count in SUBSCRIBERS]


def _publishers(host: Host) -> list[Configuration]:
    gps = Topic("t", rate=20, interval=INTERVALS[0])
    return [Configuration((gps,), host, publishers=count) for count in PUBLISHERS]


def _background(host: Host) -> list[Configuration]:
    share = 0.8 * host.cores / (max(COMPANY) * BUSY)
    others = [Topic(f"b{number}", rate=share, interval=BUSY) for number in range(max(COMPANY))]
    return [Configuration((Topic("t", rate=1, interval=BUSY), *others[:count]), host) for count in COMPANY]


def _rates(host: Host) -> list[Configuration]:
    return [
        Configuration((Topic("t", share / interval, interval),), host) for interval in INTERVALS for share in SHARES
    ]


def _company(host: Host) -> list[Configuration]:
    interval = INTERVALS[1]
    found = []
    for count in COMPANY[:3]:
        others = tuple(Topic(f"b{n}", 0.1 * host.cores / BUSY, BUSY) for n in range(count))
        for share in SHARES[:3]:
            found.append(Configuration((Topic("t", share * host.cores / 2 / interval, interval), *others), host))
    return found


FIGURES: dict[str, Callable[[Host], list[Configuration]]] = {
    "1a": _subscribers,
    "1b": _background,
    "1c": _rates,
    "1d": _company,
    "1p": _publishers,
}
"""a: subscribers; b: topics in the background; c: rate and processing interval, alone; d: rate in company; p: the same
rate from more publishers, which the published figure takes for the rate"""


def configurations(figure: str, host: Host) -> list[Configuration]:
    """What a part of the figure measures."""
    if figure not in FIGURES:
        raise ConfigError("no such part of figure 1", field="figure", value=figure, choose_from=sorted(FIGURES))
    return FIGURES[figure](host)
