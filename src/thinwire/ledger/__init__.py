"""One row type for every run: live, simulated or on Spark."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.ledger.histogram import Histogram
    from thinwire.ledger.row import COUNTERS, KEYS, MANY, Row, merge
    from thinwire.ledger.row_deviation import Deviation
    from thinwire.ledger.row_document import VERSION, from_document, to_document
    from thinwire.ledger.row_tally import Tally
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "histogram": "Histogram",
            "row": "COUNTERS KEYS MANY Row merge",
            "row_deviation": "Deviation",
            "row_document": "VERSION from_document to_document",
            "row_tally": "Tally",
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
    "Tally",
    "from_document",
    "merge",
    "to_document",
]
