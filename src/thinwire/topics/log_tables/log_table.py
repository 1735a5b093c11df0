"""A demand on a table: every value as close as asked, or an error that says where the log is coarser."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.codec import Demand
from thinwire.codec.demand import NEVER_TOLERANT, check_names, tolerance_of
from thinwire.errors import CoarserThanAsked, DemandError
from thinwire.schema import Property, Role, Schema
from thinwire.schema.property import TOLERANT_KINDS

BOUND = "_bound"
OPTION = "tolerance"


class Check:
    """Holds batches of a topic to a demand; raises `CoarserThanAsked` at the first row that does not keep it."""

    def __init__(self, topic: str, schema: Schema, demand: Demand) -> None:
        try:
            check_names(schema, demand)
        except DemandError as problem:
            raise DemandError(problem.detail, **problem.facts, option=OPTION) from None
        self.topic = topic
        named = [p for p in schema.wire if p.kind in TOLERANT_KINDS and _is_demanded(p, demand)]
        self._limits = {p.name: float(tolerance_of(schema, p, demand)) for p in named}

    def __call__(self, batch: pa.RecordBatch) -> None:
        bounds = batch.column(BOUND)
        for index, field in enumerate(bounds.type):
            if field.name in self._limits:
                self._hold(batch, field.name, bounds.field(index))

    def _hold(self, batch: pa.RecordBatch, name: str, bound: pa.Array) -> None:
        limit = self._limits[name]
        largest = pc.max(bound).as_py()
        unclaimed = bound.null_count and pc.any(pc.and_(bound.is_null(), batch.column(name).is_valid())).as_py()
        if not unclaimed and (largest is None or largest <= limit):
            return
        coarse = pc.and_(pc.or_kleene(pc.greater(bound, limit), bound.is_null()), batch.column(name).is_valid())
        row = pc.index(coarse, True).as_py()
        raise CoarserThanAsked(
            topic=self.topic,
            offset=batch.column("_offset")[row].as_py(),
            property=name,
            bound=bound[row].as_py(),
            tolerance=limit,
            option=OPTION,
        )


def _is_demanded(p: Property, demand: Demand) -> bool:
    """A number is a demand on every measurement; an object only on what it names."""
    if demand.tolerance:
        return p.name in demand.tolerance
    return p.role is Role.MEASUREMENT and p.domain not in NEVER_TOLERANT
