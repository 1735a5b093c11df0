"""Streams for thresholds: recorded minute bars, the market sample, random walks and an attack.

A stream is a column of ticks. The size of a tick is chosen for each stream: a cent, or such that the change per minute
has a given standard deviation, so that thresholds of one to a few dozen ticks are comparable.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.errors import MissingDataset
from thinwire_lab.workload.samples import market

Ticks = NDArray[np.int64]
Streams = dict[str, Ticks]

BAR_FILES = "market/us_equity_minute_trade_*.csv.gz"
"""pattern of recorded minute bars in a folder of recordings"""
OPENS, CLOSES = 34_200_000, 57_600_000
"""the regular session, in milliseconds since midnight in New York"""
SIGMA = 2.0
"""standard deviation of the change per minute in ticks, for thresholds of 1 to 63"""


def recorded_bars(folder: Path) -> Streams:
    """Read the closing prices of every symbol and day in cents, regular session."""
    files = sorted(folder.glob(BAR_FILES))
    if not files:
        raise MissingDataset(folder=str(folder), pattern=BAR_FILES)
    found: defaultdict[str, list[int]] = defaultdict(list)
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if OPENS <= int(row["ms"]) < CLOSES:
                    found[f"{row['symbol']}/{row['date']}"].append(round(int(row["close"]) / 100))
    return {name: np.array(closes, dtype=np.int64) for name, closes in found.items() if len(closes) > 1}


def sample_bars(sources: int = 30, seed: int = 1) -> Streams:
    """Generate a day of stocks in cents."""
    return {f"sample/{k}": market.closes(market.DAY_MINUTES, seed, k) for k in range(sources)}


def bars(data: Path | str | None, sources: int = 30, seed: int = 1) -> Streams:
    """Return at most `sources` recorded bars of a folder, or generated ones without a folder."""
    if data is None:
        return sample_bars(sources, seed)
    return dict(list(recorded_bars(Path(data)).items())[:sources])


def scaled(cents: Ticks, sigma: float) -> Ticks:
    """Return the stream in ticks such that its changes have a standard deviation. A constant stream is not changed.

    >>> scaled(np.array([100, 110, 100, 110]), 2.0).tolist()
    [20, 22, 20, 22]
    """
    if not sigma > 0:
        raise ConfigError("outside its limits", field="sigma", value=sigma, lowest="above 0")
    spread = float(np.sqrt(np.mean(np.square(np.diff(cents)))))
    return np.rint(cents * (sigma / spread)).astype(np.int64) if spread else cents


def walk(events: int, seed: int, largest: int = 3) -> Ticks:
    """Generate steps of any size up to the largest, in both directions."""
    return np.cumsum(np.random.default_rng(seed).integers(-largest, largest + 1, events))


def jumping(events: int, seed: int, sigma: float = 2.0) -> Ticks:
    """Generate normally distributed steps, some of them ten times as large."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(0.0, sigma, events) + (rng.random(events) < 0.005) * rng.normal(0.0, 10 * sigma, events)
    return np.rint(np.cumsum(steps)).astype(np.int64)


def attack(events: int, seed: int, steepness: int = 4, largest: int = 63) -> Ticks:
    """Generate the published attack on decomposed filters: the largest allowed steps to a threshold, which is hit
    exactly, upwards or downwards, repeatedly.

    >>> int(np.abs(np.diff(attack(1000, seed=1))).max())
    4
    """
    rng = np.random.default_rng(seed)
    steps: list[int] = []
    while len(steps) < events:
        threshold, sign = int(rng.integers(1, largest + 1)), int(rng.choice([-1, 1]))
        steps += [sign * steepness] * (threshold // steepness)
        steps += [sign * (threshold % steepness)] if threshold % steepness else []
    return np.cumsum(np.array(steps[:events], dtype=np.int64))
