"""Measurement rows of every run: live, simulated or on Spark."""

from thinwire.ledger.histogram import Histogram
from thinwire.ledger.row import COUNTERS, KEYS, MANY, Deviation, Row, RowTally, merge
from thinwire.ledger.row_document import VERSION, from_document, to_document

__all__ = [
    "COUNTERS",
    "KEYS",
    "MANY",
    "VERSION",
    "Deviation",
    "Histogram",
    "Row",
    "RowTally",
    "from_document",
    "merge",
    "to_document",
]
