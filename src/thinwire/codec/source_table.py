"""Rows taken over from other columns: where a link goes on with what another one knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinwire.codec.source_table_columns import DUE, LATEST, ORDINAL, TOLD, TRAVELLED, X2, Columns


def take_over(columns: Columns, old: Columns, rows: Sequence[int]) -> None:
    """Begin empty columns with these rows of others, in this order: numbers of events, and values by their names.

    All events count as told. Predictors start afresh, and their trials are due. Under `changes` the next event of each
    source is: what its readers saw last may be another value than the one that is taken over, unless the others were
    under `changes` too and know what is due.
    """
    columns.begin(len(rows))
    if not rows:
        return
    table, before = columns.by_row(), old.by_row()
    taken: Any = slice(None) if len(rows) == old.rows else np.fromiter(rows, dtype=np.int64, count=len(rows))
    for cell in (ORDINAL, LATEST, TRAVELLED):
        table[:, cell] = before[taken, cell]
    table[:, TOLD] = table[:, ORDINAL]
    same = columns.rules.changes and old.rules.changes
    table[:, DUE] = before[taken, DUE] if same else table[:, ORDINAL] + 1
    known = {rule.property.name: (index, rule) for index, rule in enumerate(old.rules.rules)}
    for index, rule in enumerate(columns.rules.rules):
        if rule.property.name not in known:
            continue
        old_index, old_rule = known[rule.property.name]
        for k in range(rule.slots):
            i = columns.place(0, rule.first_slot + k)
            table[:, i] = table[:, i + X2] = before[taken, old.place(0, old_rule.first_slot + k)]
        if not rule.slots:
            columns.objects[index][:] = map(old.objects[old_index].__getitem__, rows)
    if old.near:
        columns.near.update((row, old.near[former]) for row, former in enumerate(rows) if old.is_near(former))
