"""Do formats become equal? The same rows as CSV, JSON, XML and Protocol Buffers, deflated and with a dictionary.

Section 4.3.2 of the thesis: with a shared dictionary a developer can choose the format that is most convenient.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thinwire.analysis.analysis_cells import Run
from thinwire_lab.reproduce.dictionaries.dictionary_measures_measures import form_cell
from thinwire_lab.reproduce.dictionaries.policy_cells_opening import available
from thinwire_lab.reproduce.dictionaries.thesis_numbers_dictionaries_published import STANDS_FOR, TABLE_4_3_1
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Scale, Sheet, swept

FORMS = ("csv", "json", "xml", "pb")
COLUMNS = (
    *("format", "plain, thesis", "plain, ours", "deflate, thesis", "deflate, ours"),
    *("dictionary, thesis", "dictionary, ours"),
)


def table_formats(scale: Scale, run: Run, out: Path) -> Sheet:
    """Bytes a message, and how many times as large the largest format is as the smallest."""
    there = {stream.name for stream in available(scale.data)}
    rows = "debs" if "debs-pb" in there else "taxi"
    streams = [f"{rows}-{form}" for form in FORMS]
    cells = [{"stream": s, "data": scale.data, "history": 500 if scale.quick else 2000} for s in streams]
    figures = [_beside(found) for found in swept(form_cell, cells, run)]
    largest = [max(column) / min(column) for column in zip(*figures, strict=True)]
    named = zip((*streams, "largest to smallest"), (*figures, largest), strict=True)
    notes = ("the thesis counts its dictionaries in, ours are left out: what they cost depends on how long they live",)
    return Sheet("table formats: bytes a message", COLUMNS, [(name, *row) for name, row in named], notes)


def _beside(found: Mapping[str, Any]) -> list[float]:
    """Plain, deflated and with a dictionary, the thesis before ours."""
    theirs = TABLE_4_3_1[STANDS_FOR[found["stream"]]]
    ours = (found["plain"], found["deflate"], found["dictionary"])
    pairs = zip((theirs.mean, theirs.deflate_size, theirs.size), ours, strict=True)
    return [side for pair in pairs for side in pair]
