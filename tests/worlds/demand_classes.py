"""Questions that tests ask about demand classes."""

from __future__ import annotations

from typing import Any

from thinwire.schema import Schema
from thinwire.topics.demand_class import DemandClass


def selects(demand: DemandClass, source: tuple[Any, ...], schema: Schema) -> bool:
    """Return True if a class selects a source."""
    matches = demand.source_filter(schema)
    return matches is None or matches(source)
