"""One row type for every run: live, simulated or on Spark."""

from thinwire.ledger.deviation import Deviation
from thinwire.ledger.documents import VERSION, from_document, to_document
from thinwire.ledger.histogram import Histogram
from thinwire.ledger.row import COUNTERS, KEYS, MANY, Row, merge
from thinwire.ledger.tally import Tally

__all__ = [
    "COUNTERS",
    "KEYS",
    "MANY",
    "VERSION",
    "Deviation",
    "Histogram",
    "Row",
    "Tally",
    "from_document",
    "merge",
    "to_document",
]
