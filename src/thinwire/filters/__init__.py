"""Filters: interval tables, rectangle indexes, `where` predicates and watch conditions.

The indexes need compiled kernels, which take half a second to load. Parsing an expression does not load them.
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.filters.rectangle_index import Distinct, RectangleIndex, distinct
else:
    __getattr__, __dir__ = contents(__name__, {"rectangle_index": "Distinct RectangleIndex distinct"})

__all__ = ["Distinct", "RectangleIndex", "distinct"]
