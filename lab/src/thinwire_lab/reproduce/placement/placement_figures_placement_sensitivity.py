"""Figure 1, simulated: what moves the p90 of a topic, alone and in company."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from thinwire.placement import Host, Topic, simulate
from thinwire.placement.queue_simulator_samples import INTERVALS, LABELS, SUSTAINED, random_topics
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_plots import lines
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Sheet
from thinwire_lab.reproduce.placement.placement_cells_placement_occasion import Occasion

SHARES = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1)
"""of the rate that a topic sustains alone"""
COMPANY = {0: 38, 7: 15, 11: 8}
"""figure 1d: topics in the background -> the rate that a topic of 20 ms sustained beside them, as published"""
BUSY = 0.05
"""seconds a message of the topics of figure 1b"""


def sensitivity(occasion: Occasion) -> Iterator[Sheet]:
    """Figure 1 b, c and d; the cost of many subscribers is not simulated, so a is only measured."""
    yield _background(occasion)
    yield _alone(occasion)
    yield _company(occasion)


def _background(occasion: Occasion) -> Sheet:
    rows = []
    for n in range(9):
        others = [Topic(f"b{number}", 10, BUSY) for number in range(n)]
        rows.append((n, {0: 72, 8: 180}.get(n), _whole(_p90([Topic("t", 1, BUSY), *others], occasion))))
    note = "published: 72 to 180 ms with 200 subscribers; simulated without the time that many subscribers take"
    columns = ("background topics", "published p90 ms", "simulated p90 ms")
    return Sheet("figure 1b, simulated: 1 message/s of 50 ms beside topics of 10 messages/s", columns, rows, (note,))


def _alone(occasion: Occasion) -> Sheet:
    rows, series = [], {}
    for label, interval, most in zip(LABELS, INTERVALS, SUSTAINED, strict=True):
        p90 = [1000 * _p90([Topic("t", share * most, interval)], occasion) for share in SHARES]
        rows.append((1000 * label, most, _sustained(interval, [], occasion), *map(round, p90)))
        series[f"{1000 * label:g} ms"] = ([share * most for share in SHARES], p90)
    title = "figure 1c, simulated: p90 over the rate, alone"
    drawn = lines(occasion.out / "figure-1c", title, series, ("messages/s", "p90 ms"))
    shown = tuple(f"p90 ms at {share:g} of it" for share in SHARES)
    note = "the seconds of a message were chosen so that the sustained rates match: no independent check"
    return Sheet(title, ("ms a message", "published rate sustained", "simulated", *shown), rows, (note,), drawn)


def _company(occasion: Occasion) -> Sheet:
    company = random_topics(11, np.random.Generator(np.random.PCG64(7)))
    rows: list[tuple[Any, ...]] = [
        (n, COMPANY.get(n), _sustained(INTERVALS[1], company[:n], occasion)) for n in (0, 3, 7, 11)
    ]
    title = "figure 1d, simulated: a topic of 20 ms in company (their background is not known)"
    return Sheet(title, ("background topics", "published rate sustained", "simulated"), rows)


def _p90(topics: list[Topic], occasion: Occasion) -> float:
    turns = range(occasion.scale.reruns)
    return float(np.median([simulate(topics, Host(), [3, turn])[0].p90 for turn in turns]))


def _sustained(interval: float, company: list[Topic], occasion: Occasion) -> int:
    """The largest whole rate at which the p90 stays below a second, by halving."""
    low, high = 0, int(1.2 / interval)
    while high - low > 1:
        middle = (low + high) // 2
        held = _p90([Topic("t", middle, interval), *company], occasion) <= 1.0
        low, high = (middle, high) if held else (low, middle)
    return low


def _whole(seconds: float) -> int:
    return round(1000 * seconds)
