"""The market: minute bars of stocks, one bar a trading minute and symbol.

Prices are whole cents. Every symbol has its own price, its own volatility and now and then a jump; mornings and
evenings are livelier than noon, and nights leave a gap. Nothing in it is a forecast, or a claim about a real stock.

>>> first, second = events(2, seed=1)
>>> first["timestamp"], first["symbol"], first["close"]
('2024-01-08T14:30:00Z', 'AAA', 321.96)
>>> closes(5, seed=1).tolist()[0]
32196

Stocks at work: a price moves in whole hundredths of a cent, a bar says in whole cents where it was in a minute.

The walk adds and multiplies and calls no mathematical library, and its random words are the raw output of PCG64: a seed
gives the same stream on every machine, and a longer stream begins with the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire.demo.building.building_stream import BLOCK, check_request, in_turn
from thinwire.schema import Kind, Property, Role, Schema

DAY_MINUTES = 390
"""a trading day, half past nine to four in New York"""

_START = np.datetime64("2024-01-08T14:30", "m")
"""a Monday"""
_MOVES = 6
"""of a minute: a price every ten seconds"""
_WORDS = 3 * _MOVES + 2
_POINT = 100
"""moves are counted in hundredths of a cent: a quiet stock moves less than a cent in ten seconds"""
_LOW, _HIGH = 100 * _POINT, 500_000 * _POINT
_JUMP = 12
_JUMPS = 0.004
_NIGHT = 8
_PRICES = ("open", "high", "low", "close")

Whole = NDArray[np.int64]


def schema() -> Schema:
    """The schema of a bar.

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
    """One symbol: what `source` selects."""

    def __init__(self, seed: int, source: int = 0) -> None:
        self.seed = seed
        self.source = source
        self.name = _symbol(source)
        self._words = np.random.PCG64(np.random.SeedSequence([seed, source]))
        price, volatility, trade, _ = self._chances(1)[0, :4]
        # From 10 to 400 dollars, most of them cheap; a minute moves it by 2 to 12 hundredths of a per cent.
        self._price = int((1_000 + 39_000 * price * price) * _POINT)
        self._move = self._price * (0.0002 + 0.001 * volatility * volatility)
        self._trade = 100 + 4_900 * trade * trade
        self._minute = 0

    def block(self, rows: int = BLOCK) -> pa.RecordBatch:
        """The next `rows` bars."""
        instants = self._instants(rows)
        chances = self._chances(rows)
        bars = self._bars(chances)
        columns = [
            pa.array(np.char.add(np.datetime_as_string(instants, unit="s"), "Z")),
            pa.repeat(self.name, rows),
            *(pa.array(bars[:, k] / 100.0) for k in range(4)),
            pa.array(self._volumes(chances, bars)),
        ]
        self._minute += rows
        return pa.RecordBatch.from_arrays(columns, names=[p.name for p in schema()])

    def closes(self, rows: int) -> Whole:
        """The closes of the next `rows` bars, in cents."""
        bars = self._bars(self._chances(rows))
        self._minute += rows
        return bars[:, 3]

    def _bars(self, chances: NDArray[np.float64]) -> Whole:
        """Open, high, low and close, in cents."""
        moves = self._moves(chances)
        path = self._price + np.cumsum(moves.ravel())
        self._price = int(path[-1]) if len(path) else self._price
        cents = (_folded(path) // _POINT).reshape(len(moves), _MOVES)
        return np.stack([cents[:, 0], cents.max(axis=1), cents.min(axis=1), cents[:, -1]], axis=1)

    def _moves(self, chances: NDArray[np.float64]) -> Whole:
        """What the price does: sums of twelve chances are as good as normal."""
        rows = len(chances)
        normal = chances[:, : 12 * _MOVES].reshape(rows, _MOVES, 12).sum(axis=2) - 6.0
        minute = (self._minute + np.arange(rows)) % DAY_MINUTES
        noon = (minute - DAY_MINUTES / 2) / (DAY_MINUTES / 2)
        scale = (0.7 + 0.9 * noon * noon) * self._move * 0.408
        scale = np.where(minute == 0, _NIGHT * scale, scale)
        jump = np.where(chances[:, 12 * _MOVES] < _JUMPS, _JUMP, 1)
        steps = normal * scale[:, None]
        steps[:, 0] *= jump
        moves: Whole = np.floor(steps + 0.5).astype(np.int64)
        return moves

    def _volumes(self, chances: NDArray[np.float64], bars: Whole) -> Whole:
        """In hundreds: a few of everybody's, more where the price moves."""
        luck = chances[:, 12 * _MOVES + 1]
        width = (bars[:, 1] - bars[:, 2]) * _POINT / self._move
        hundreds: Whole = np.floor(self._trade * luck * luck * (1.0 + width) / 10.0).astype(np.int64)
        return 100 * hundreds

    def _chances(self, rows: int) -> NDArray[np.float64]:
        """For each bar its random numbers in [0, 1), four from a word; they do not depend on the block."""
        words = self._words.random_raw(rows * _WORDS).astype("<u8")
        return words.view("<u2").reshape(rows, 4 * _WORDS) / 65_536.0

    def _instants(self, rows: int) -> NDArray[np.datetime64]:
        """Trading minutes, weekends left out."""
        minutes = self._minute + np.arange(rows)
        day = minutes // DAY_MINUTES
        calendar = day // 5 * 7 + day % 5
        return _START + (calendar * 1_440 + minutes % DAY_MINUTES).astype("timedelta64[m]")


def batches(events: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[pa.RecordBatch]:
    """`events` bars of `sources` stocks, in the order in which they happen, as Arrow batches of at most 10,000 rows.

    `first` is the index of the first stock; stock k is the same alone and among others.
    """
    check_request(events, seed, sources, first)
    return in_turn([Stock(seed, first + k) for k in range(sources)], events)


def events(n: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[dict[str, Any]]:
    """The same bars as dicts."""
    for batch in batches(n, seed, sources, first=first):
        yield from batch.to_pylist()


def closes(minutes: int = DAY_MINUTES, seed: int = 1, source: int = 0) -> Whole:
    """The closes of one stock, in cents."""
    check_request(minutes, seed, 1, source)
    return Stock(seed, source).closes(minutes)


def _folded(points: Whole) -> Whole:
    """A price that would leave the range comes back from its border, by steps of the same size."""
    width = _HIGH - _LOW
    place = (points - _LOW) % (2 * width)
    return _LOW + np.where(place > width, 2 * width - place, place)


def _symbol(source: int) -> str:
    """Three letters, and more for those after the 17,576th.

    >>> _symbol(0), _symbol(27), _symbol(26**3)
    ('AAA', 'ABB', 'BAAA')
    """
    letters = ""
    while source or len(letters) < 3:
        source, place = divmod(source, 26)
        letters = ascii_uppercase[place] + letters
    return letters
