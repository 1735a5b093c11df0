"""A set of rules as a table of numbers, for kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thinwire.codec.rules import Rule
from thinwire.codec.source_table import SourceTable
from thinwire.codec.value_conversion import step_of
from thinwire.schema import Kind, Property
from thinwire.wire.partial_event import EncodingKind

LANE, SLOT, TOLERANCE, HALF, BAND, LOWEST, HIGHEST, UP, DOWN, WHOLE, AUTO, PERIOD, RING, GATE, WATCHED = range(15)
"""of a property: its lane, first slot, tolerance, half bin, idle band, range, numerator and denominator of its step,
whether its values are given as integers, its place in trials or -1, its period and where its season begins, what it
can do at the gate, and whether a reader of changes has said that this one counts"""

OPEN, FIRES, WAITS = range(3)
"""at the gate: there is none and every property of the link makes events travel; this one does; it waits for others"""

_MAX_FRACTION = 1 << 30
_MAX_PROPERTIES = 384


def plan_of(columns: SourceTable) -> npt.NDArray[np.int64]:
    """One column a property, one line each thing kernels know of it."""
    rows: list[list[int]] = []
    autos = 0
    for rule in columns.rules.rules:
        p = rule.property
        step = step_of(p)
        slot = rule.first_slot
        auto = autos if rule.auto and rule.lane is EncodingKind.TICK else -1
        autos += auto >= 0
        period, ring = (columns.period[slot], columns.ring_start[slot]) if rule.lane is EncodingKind.TICK else (0, 0)
        judged = (rule.tolerance, rule.half, rule.band, rule.lowest, rule.highest)
        gate = (FIRES if columns.rules.fires(rule) else WAITS) if columns.rules.changes else OPEN
        counted = (step.numerator, step.denominator, is_whole(p))
        rows.append([int(rule.lane), slot, *judged, *counted, auto, period, ring, gate, 0])
    return np.ascontiguousarray(np.array(rows, dtype=np.int64).T)


def compilable(columns: SourceTable) -> bool:
    """Can kernels serve these rules?

    Positions, arrays, opaque values, thinning, odd steps and very wide schemas take the per-event way.
    """
    rules = columns.rules
    if rules.min_interval or not rules.slots or len(rules.rules) > _MAX_PROPERTIES:
        return False
    return all(_simple(rule) for rule in rules.rules)


def is_whole(p: Property) -> bool:
    """Are the property's values given to kernels as integers?"""
    fraction = p.kind is Kind.NUMBER or (p.kind is Kind.TIMESTAMP and step_of(p) != 1)
    return not fraction


def _simple(rule: Rule) -> bool:
    step = step_of(rule.property)
    if rule.lane in (EncodingKind.GEO, EncodingKind.ARRAY, EncodingKind.OPAQUE) or (
        rule.lane is EncodingKind.FLOAT and (rule.distance or rule.ranged)
    ):
        return False
    if rule.property.kind is Kind.INTEGER and step != 1:
        return False
    return step.numerator < _MAX_FRACTION and step.denominator < _MAX_FRACTION
