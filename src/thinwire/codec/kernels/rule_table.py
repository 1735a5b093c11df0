"""Rules as a table of integers for kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thinwire.codec.rules import Rule
from thinwire.codec.source_table import SourceTable
from thinwire.codec.value_conversion import step_of
from thinwire.schema import Kind, Property
from thinwire.wire.partial_event import EncodingKind

ENCODING, SLOT, TOLERANCE, HALF, BAND, LOWEST, HIGHEST, UP, DOWN, IS_INTEGER, AUTO, PERIOD, RING, GATE, WATCHED = range(
    15
)
"""rows of the rule table, one column per property: encoding, first slot, tolerance, half bin, idle band, range,
numerator and denominator of the step, whether values are passed as integers, index in trials or -1, period and start of
its ring, role at the change gate, and whether a reader of changes watches the property"""

NO_GATE, TRIGGERS, FOLLOWS = range(3)
"""role at the change gate: no gate, every property triggers frames; this property does; it follows others"""

_MAX_FRACTION = 1 << 30
_MAX_PROPERTIES = 384


def build_rule_table(table: SourceTable) -> npt.NDArray[np.int64]:
    """Build the rule table of a source table."""
    rows: list[list[int]] = []
    autos = 0
    for rule in table.rules.rules:
        p = rule.property
        step = step_of(p)
        slot = rule.first_slot
        auto = autos if rule.auto and rule.encoding is EncodingKind.TICK else -1
        autos += auto >= 0
        period, ring = (table.period[slot], table.ring_start[slot]) if rule.encoding is EncodingKind.TICK else (0, 0)
        limits = (rule.tolerance, rule.half, rule.band, rule.lowest, rule.highest)
        gate = (TRIGGERS if table.rules.triggers(rule) else FOLLOWS) if table.rules.changes else NO_GATE
        counted = (step.numerator, step.denominator, is_integral(p))
        rows.append([int(rule.encoding), slot, *limits, *counted, auto, period, ring, gate, 0])
    return np.ascontiguousarray(np.array(rows, dtype=np.int64).T)


def is_compilable(table: SourceTable) -> bool:
    """Check whether kernels support the rules.

    The scalar code handles positions, arrays, opaque values, `min_interval`, custom predictors, unusual steps and very
    wide schemas.
    """
    rules = table.rules
    if rules.min_interval or rules.custom or not rules.slots or len(rules.rules) > _MAX_PROPERTIES:
        return False
    return all(_simple(rule) for rule in rules.rules)


def is_integral(p: Property) -> bool:
    """Check whether the values of a property are passed to kernels as integers."""
    fraction = p.kind is Kind.NUMBER or (p.kind is Kind.TIMESTAMP and step_of(p) != 1)
    return not fraction


def _simple(rule: Rule) -> bool:
    step = step_of(rule.property)
    if rule.encoding in (EncodingKind.GEO, EncodingKind.ARRAY, EncodingKind.OPAQUE) or (
        rule.encoding is EncodingKind.FLOAT and (rule.distance or rule.has_range)
    ):
        return False
    if rule.property.kind is Kind.INTEGER and step != 1:
        return False
    return step.numerator < _MAX_FRACTION and step.denominator < _MAX_FRACTION
