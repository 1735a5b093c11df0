"""The market: minute bars of stocks, one bar a trading minute and symbol.

Prices are whole cents. Every symbol has its own price, its own volatility and now and then a jump; mornings and
evenings are livelier than noon, and nights leave a gap. Nothing in it is a forecast, or a claim about a real stock.

>>> first, second = events(2, seed=1)
>>> first["timestamp"], first["symbol"], first["close"]
('2024-01-08T14:30:00Z', 'AAA', 321.96)
>>> closes(5, seed=1).tolist()[0]
32196
"""

from thinwire.demo.building.building_stream_turns import BLOCK, MAX_SOURCES
from thinwire_lab.workload.samples.market_market_stream import DAY_MINUTES, Stock, batches, closes, events, schema

__all__ = ["BLOCK", "DAY_MINUTES", "MAX_SOURCES", "Stock", "batches", "closes", "events", "schema"]
