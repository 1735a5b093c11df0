"""Matching: which rectangles hold a point, exactly, for many points at a time.

Indexes need compiled kernels, which cost half a second to load: who only reads a `where` does not pay for them.
"""

from typing import TYPE_CHECKING

from thinwire.contents import contents
from thinwire.matching.distinct import Distinct, distinct

if TYPE_CHECKING:
    from thinwire.matching.grids import RectangleGrid, quickest
    from thinwire.matching.rectangles import RectangleIndex
else:
    __getattr__, __dir__ = contents(__name__, {"grids": "RectangleGrid quickest", "rectangles": "RectangleIndex"})

__all__ = ["Distinct", "RectangleGrid", "RectangleIndex", "distinct", "quickest"]
