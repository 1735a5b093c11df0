"""Measurement rows of every run: live, simulated or on Spark."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.ledger.histogram import Histogram
    from thinwire.ledger.row import COUNTERS, KEYS, MANY, Deviation, Row, RowTally, merge
    from thinwire.ledger.row_document import VERSION, from_document, to_document
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "histogram": "Histogram",
            "row": "COUNTERS Deviation KEYS MANY Row RowTally merge",
            "row_document": "VERSION from_document to_document",
        },
    )

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
