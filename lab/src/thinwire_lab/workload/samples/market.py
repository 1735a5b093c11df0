"""The market sample: minute bars of stocks, one bar per trading minute and symbol.

Prices are integer cents; internally a price moves in integer hundredths of a cent. Each symbol has its own price and
volatility, and occasional jumps. Mornings and evenings have larger moves than noon, and nights leave a gap. The data
are not based on real stocks.

The random walk uses additions and multiplications and the raw output of PCG64 only: a seed gives the same stream on
each machine, and a longer stream begins with the shorter one.

>>> first, second = events(2, seed=1)
>>> first["timestamp"], first["symbol"], first["close"]
('2024-01-08T14:30:00Z', 'AAA', 321.96)
>>> closes(5, seed=1).tolist()[0]
32196
"""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire.demo.building.building_stream import BLOCK, check_limits, interleaved_batches
from thinwire.schema import Kind, Property, Role, Schema

DAY_MINUTES = 390
"""a trading day, from 9:30 to 16:00 in New York"""

_START = np.datetime64("2024-01-08T14:30", "m")
"""a Monday"""
_MOVES = 6
"""price moves per minute, one every ten seconds"""
_WORDS = 3 * _MOVES + 2
_POINT = 100
"""moves are counted in hundredths of a cent: a quiet stock moves less than a cent in ten seconds"""
_LOW, _HIGH = 100 * _POINT, 500_000 * _POINT
_JUMP = 12
_JUMPS = 0.004
_NIGHT = 8
_PRICES = ("open", "high", "low", "close")

Integers = NDArray[np.int64]


def schema() -> Schema:
    """Return the schema of a bar.

    >>> schema()["close"].step
    Fraction(1, 100)
    """
    money = [Property(p, Kind.NUMBER, step="0.01", minimum=1, maximum=5000, unit="qudt:CCY_USD") for p in _PRICES]
    return Schema(
        "market",
        [
            Property("timestamp", Kind.TIMESTAMP, Role.HEADER, form="iso:T0Z"),
            Property("symbol", Kind.STRING, Role.DIMENSION),
            *money,
            Property("volume", Kind.INTEGER, minimum=0),
        ],
    )


class Stock:
    """One symbol; `source` is its index."""

    def __init__(self, seed: int, source: int = 0) -> None:
        self.name = _symbol(source)
        self._words = np.random.PCG64(np.random.SeedSequence([seed, source]))
        price, volatility, activity, _ = self._random_numbers(1)[0, :4]
        # From 10 to 400 dollars, mostly low; a move is 0.02 to 0.12 % of the price per minute.
        self._price = int((1_000 + 39_000 * price * price) * _POINT)
        self._move = self._price * (0.0002 + 0.001 * volatility * volatility)
        self._trade = 100 + 4_900 * activity * activity
        self._minute = 0

    def block(self, rows: int = BLOCK) -> pa.RecordBatch:
        """Return the next `rows` bars."""
        instants = self._instants(rows)
        random = self._random_numbers(rows)
        bars = self._bars(random)
        columns = [
            pa.array(np.char.add(np.datetime_as_string(instants, unit="s"), "Z")),
            pa.repeat(self.name, rows),
            *(pa.array(bars[:, k] / 100.0) for k in range(4)),
            pa.array(self._volumes(random, bars)),
        ]
        self._minute += rows
        return pa.RecordBatch.from_arrays(columns, names=[p.name for p in schema()])

    def closes(self, rows: int) -> Integers:
        """Return the closes of the next `rows` bars, in cents."""
        bars = self._bars(self._random_numbers(rows))
        self._minute += rows
        return bars[:, 3]

    def _bars(self, random: NDArray[np.float64]) -> Integers:
        """Return open, high, low and close, in cents."""
        moves = self._moves(random)
        path = self._price + np.cumsum(moves.ravel())
        self._price = int(path[-1]) if len(path) else self._price
        cents = (_folded(path) // _POINT).reshape(len(moves), _MOVES)
        return np.stack([cents[:, 0], cents.max(axis=1), cents.min(axis=1), cents[:, -1]], axis=1)

    def _moves(self, random: NDArray[np.float64]) -> Integers:
        """Return price moves. A sum of twelve uniform numbers approximates a normal one."""
        rows = len(random)
        normal = random[:, : 12 * _MOVES].reshape(rows, _MOVES, 12).sum(axis=2) - 6.0
        minute = (self._minute + np.arange(rows)) % DAY_MINUTES
        noon = (minute - DAY_MINUTES / 2) / (DAY_MINUTES / 2)
        scale = (0.7 + 0.9 * noon * noon) * self._move * 0.408
        scale = np.where(minute == 0, _NIGHT * scale, scale)
        jump = np.where(random[:, 12 * _MOVES] < _JUMPS, _JUMP, 1)
        steps = normal * scale[:, None]
        steps[:, 0] *= jump
        moves: Integers = np.floor(steps + 0.5).astype(np.int64)
        return moves

    def _volumes(self, random: NDArray[np.float64], bars: Integers) -> Integers:
        """Return volumes in multiples of 100, which grow with the range of the bar."""
        factor = random[:, 12 * _MOVES + 1]
        spread = (bars[:, 1] - bars[:, 2]) * _POINT / self._move
        hundreds: Integers = np.floor(self._trade * factor * factor * (1.0 + spread) / 10.0).astype(np.int64)
        return 100 * hundreds

    def _random_numbers(self, rows: int) -> NDArray[np.float64]:
        """Return the random numbers of each bar in [0, 1), four per word; they do not depend on the block."""
        words = self._words.random_raw(rows * _WORDS).astype("<u8")
        return words.view("<u2").reshape(rows, 4 * _WORDS) / 65_536.0

    def _instants(self, rows: int) -> NDArray[np.datetime64]:
        """Return trading minutes, without weekends."""
        minutes = self._minute + np.arange(rows)
        day = minutes // DAY_MINUTES
        calendar = day // 5 * 7 + day % 5
        return _START + (calendar * 1_440 + minutes % DAY_MINUTES).astype("timedelta64[m]")


def batches(events: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[pa.RecordBatch]:
    """Return `events` bars of `sources` stocks in time order, as Arrow batches of at most 10,000 rows.

    `first` is the index of the first stock. A stock does not depend on the number of others.
    """
    check_limits(events, seed, sources, first)
    return interleaved_batches([Stock(seed, first + k) for k in range(sources)], events)


def events(n: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the same bars as dicts."""
    for batch in batches(n, seed, sources, first=first):
        yield from batch.to_pylist()


def closes(minutes: int = DAY_MINUTES, seed: int = 1, source: int = 0) -> Integers:
    """Return the closes of one stock, in cents."""
    check_limits(minutes, seed, 1, source)
    return Stock(seed, source).closes(minutes)


def _folded(points: Integers) -> Integers:
    """Reflect prices at the ends of their range."""
    width = _HIGH - _LOW
    position = (points - _LOW) % (2 * width)
    return _LOW + np.where(position > width, 2 * width - position, position)


def _symbol(source: int) -> str:
    """Return a symbol of three letters; longer from index 17,576 on.

    >>> _symbol(0), _symbol(27), _symbol(26**3)
    ('AAA', 'ABB', 'BAAA')
    """
    letters = ""
    while source or len(letters) < 3:
        source, letter = divmod(source, 26)
        letters = ascii_uppercase[letter] + letters
    return letters
